"""Prompt and tools as history: a fold over system messages."""
