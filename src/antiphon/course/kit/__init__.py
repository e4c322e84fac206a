"""Practice folders: made out of templates, checked with injected tests, judged step by step.

May import everything below; needs pytest in a child process only. Start reading at `chapters.py` (what the chapters
are), then `folder.py` (making a folder), `running.py` and `verdict.py` (trying it), `report.py` (telling it).
"""
