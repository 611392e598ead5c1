"""Opens pages in a real browser without a window, and measures them."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND"),  # without a network
)
# a frame, because a window of Chromium is at least 500 pixels wide
WRAPPER = """<title>page</title><iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.contentWindow.addEventListener("error", event => document.title += " error: " + event.message);
frame.addEventListener("load", () => {{
    const page = frame.contentDocument.documentElement;
    document.title += ` measured ${{page.scrollWidth}}, ${{page.scrollHeight}} high`;
}});
</script>"""


def measured(page: Path, width: int, scratch: Path) -> tuple[int, int]:
    """Return the width that a page needs where it gets the given width, and its height.

    The test is skipped if there is no Chromium. A script error fails it.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium: apt-get install chromium")
    wrapper = scratch / "wrapper.html"
    wrapper.write_text(WRAPPER.format(width=width, page=html.escape(page.read_text())))
    command = [browser, *FLAGS, f"--user-data-dir={scratch / 'profile'}", "--window-size=1600,1000", "--dump-dom"]
    done = subprocess.run([*command, wrapper.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)[1]
    assert "error:" not in title, title
    found = re.search(r"measured (\d+), (\d+) high", title)
    assert found, title
    return int(found[1]), int(found[2])
