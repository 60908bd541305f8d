"""Adapters for training frameworks; each module imports its framework only where it is installed."""
