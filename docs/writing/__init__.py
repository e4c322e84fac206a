"""How the generated pages and the site are made. Start reading at `docs/generate.py`."""
