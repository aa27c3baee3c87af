"""Results to tables, CSV and JSON. No physics: everything printed is read off a result."""

from specroof.report.chips import hardware_table, hardware_text
from specroof.report.curves import counted_table, curves_table, pays_lines, source_lines
from specroof.report.layout import columns_csv, format_table, json_line, rows_csv
from specroof.report.operations import explain_rows, explain_table
from specroof.report.points import curve_columns, curves_csv, curves_json

__all__ = [
    "columns_csv",
    "counted_table",
    "curve_columns",
    "curves_csv",
    "curves_json",
    "curves_table",
    "explain_rows",
    "explain_table",
    "format_table",
    "hardware_table",
    "hardware_text",
    "json_line",
    "pays_lines",
    "rows_csv",
    "source_lines",
]
