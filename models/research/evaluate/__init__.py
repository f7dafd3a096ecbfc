"""Evaluates the default model on real tables, on data of known truth and on series.

Run it from the repository root: `python3 -m models.research.evaluate --help`.
"""
