"""WHAT THE PROVIDER CALLS COST.

models ....... ai_usage_log: one row per call, an intent before and its settlement after
"""
