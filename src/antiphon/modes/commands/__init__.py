"""Commands that are no conversation: keys, settings, trust, stored sessions, replay. One file each.

Each has `run(words, output)` and gives the exit code; what a person did wrong is raised as a `UserError`.
"""
