"""Answers to text: tables for people, CSV and JSON, and files that appear whole."""
