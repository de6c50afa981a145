"""Shells complete the commands and their options."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "expected"),
    [("tutelage te", "teach"), ("tutelage serve --po", "--port"), ("tutelage --vers", "--version")],
)
def test_the_shell_is_told_what_fits(words, expected):
    asked = {"_TUTELAGE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    program = "import sys; sys.argv = ['tutelage']; from tutelage.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True)
    assert expected in ran.stdout.split(), ran.stderr
