"""Answers to text: tables for people, CSV and JSON, and files that appear whole."""

from specroof.report.acceptance import fits_text, profiles_table, profiles_text
from specroof.report.advice import advice_json, advice_text
from specroof.report.breakeven import breakeven_csv, breakeven_text
from specroof.report.capacity import capacity_text
from specroof.report.chips import hardware_table, hardware_text
from specroof.report.curves import counted_table, curves_table, pays_lines, source_lines
from specroof.report.doctor import doctor_text
from specroof.report.frontier import frontier_csv, frontier_text
from specroof.report.layout import (
    columns_csv,
    format_table,
    in_line,
    json_line,
    note_lines,
    rows_csv,
)
from specroof.report.mock import mock_text
from specroof.report.models import diff_text, model_text, models_table
from specroof.report.operations import explain_rows, explanation_csv, explanation_text
from specroof.report.points import curve_columns, curves_csv, curves_json
from specroof.report.prediction import (
    prediction_csv,
    prediction_json,
    prediction_text,
    predictions_json,
)
from specroof.report.simulation import exactness_text, times_text
from specroof.report.sweep import sweep_text
from specroof.report.worth import worth_csv, worth_text
from specroof.report.writing import joined_files, write_files, write_folder

__all__ = [
    "advice_json",
    "advice_text",
    "breakeven_csv",
    "breakeven_text",
    "capacity_text",
    "columns_csv",
    "counted_table",
    "curve_columns",
    "curves_csv",
    "curves_json",
    "curves_table",
    "diff_text",
    "doctor_text",
    "exactness_text",
    "explain_rows",
    "explanation_csv",
    "explanation_text",
    "fits_text",
    "format_table",
    "frontier_csv",
    "frontier_text",
    "hardware_table",
    "hardware_text",
    "in_line",
    "joined_files",
    "json_line",
    "mock_text",
    "model_text",
    "models_table",
    "note_lines",
    "pays_lines",
    "prediction_csv",
    "prediction_json",
    "prediction_text",
    "predictions_json",
    "profiles_table",
    "profiles_text",
    "rows_csv",
    "source_lines",
    "sweep_text",
    "times_text",
    "worth_csv",
    "worth_text",
    "write_files",
    "write_folder",
]
