"""The browser that the page is tested with: Debian's Chromium, or whichever the environment names."""

import os
import shutil

CHROMIUM = os.environ.get("TUTELAGE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

NO_BROWSER = (
    "THERE IS NO CHROMIUM, SO THE PAGE WAS NOT TESTED: apt-get install chromium, "
    "or set TUTELAGE_CHROMIUM to the path of one"
)
