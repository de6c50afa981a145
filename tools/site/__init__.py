"""How `make docs` makes the site from docs/: code runs, equations become MathML, commands are listed."""
