"""Chromium without a window, for tests of the page.

    with Browser(f"http://{daemon.http}/") as browser:
        browser.open("runs")
        browser.wait("exp-42 is listed", lambda: "exp-42" in browser.text("main"))
"""

import base64
import shutil
import time

from selenium import webdriver
from selenium.common.exceptions import JavascriptException, StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

# What tests wait for at most; a loaded machine is slow.
SECONDS = 30.0

# A canvas in which something is drawn has more than a handful of colours.
DRAWN = """
const canvases = [...document.querySelectorAll(arguments[0])];
return canvases.length > 0 && canvases.every((canvas) => {
  if (canvas.width === 0 || canvas.height === 0) return false;
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Set();
  for (let i = 0; i < data.length && colors.size <= 4; i += 4) {
    if (data[i + 3] > 0) colors.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  }
  return colors.size > 4;
});
"""


class Browser:
    """One window. Leaving it ends the browser."""

    def __init__(self, base):
        self.base = base
        options = Options()
        # As root, as in a container, Chromium has no sandbox of its own.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--hide-scrollbars", "--lang=en-GB", "--force-color-profile=srgb"):
            options.add_argument(argument)
        options.binary_location = shutil.which("chromium") or "chromium"
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_page_load_timeout(SECONDS)
        self.size(1280, 900)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.driver.quit()

    def size(self, width, height, dark=False):
        """The window's inner size in CSS pixels; phones below 500."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})  # scrolls at once: clicks hit

    def save_to(self, folder):
        """Where files go that the page hands out."""
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {
            "behavior": "allow", "downloadPath": str(folder)})

    def open(self, path):
        self.driver.get(self.base + path)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, what, condition, seconds=SECONDS):
        """The value of `condition` once it is true; AssertionError with the page's text if it never is."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                value = condition()
            except (StaleElementReferenceException, JavascriptException):
                value = None  # it was drawn anew in between
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}; the page says:\n"
                                     f"{self.text('body')[:3000]}\nlog: {self.log()}")
            time.sleep(0.05)

    def find(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        """Of all elements that match, as a reader sees it."""
        return "\n".join(element.text for element in self.find(css))

    def wait_text(self, css, text):
        self.wait(f"'{text}' in {css}", lambda: text in self.text(css))

    def wait_drawn(self, css="main figure canvas"):
        self.wait(f"something is drawn in {css}", lambda: self.run(DRAWN, css))

    def wait_loaded(self):
        """Until the view has drawn what it first asked for."""
        self.wait("the view has loaded", lambda: self.find("main:not([aria-busy]) > *"))

    def click(self, css, text=None):
        """The first element that matches (and has the text)."""
        def found():
            for element in self.find(css):
                if text is None or element.text == text:
                    element.click()
                    return True
            return False
        self.wait(f"{css} '{text or ''}' to click", found)

    def log(self):
        """Errors on the browser's console since the last call, but not of a daemon that is away."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE" and "ERR_CONNECTION" not in entry["message"]]

    def overflow(self):
        """How many pixels the page is wider than its window."""
        return self.run("return document.documentElement.scrollWidth - innerWidth")

    def screenshot(self, path):
        """Of the whole page, in a window as high as it is."""
        width, height, high = self.run("return [innerWidth, innerHeight, "
                                       "document.documentElement.scrollHeight]")
        dark = self.run("return matchMedia('(prefers-color-scheme: dark)').matches")
        self.size(width, max(height, min(high, 5000)), dark=dark)
        if self.find("main figure canvas"):
            self.wait_drawn()
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        path.write_bytes(base64.b64decode(taken["data"]))
