#!/usr/bin/env python3
"""Every view of the page under axe-core (make accessibility).

    tests/e2e/accessibility.py BIN_DIR AXE_MIN_JS

Exit: 1 when something serious or critical was found.
"""

import pathlib
import sys

from screenshots import each_view

RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then((result) => done(result.violations.map((one) => ({
  id: one.id, impact: one.impact, help: one.help, nodes: one.nodes.map((node) => node.target.join(" "))}))));
"""


def main(binaries, axe):
    serious = 0
    script = axe.read_text()
    for name, browser in each_view(binaries):
        browser.driver.set_script_timeout(60)
        browser.run(script)
        found = browser.driver.execute_async_script(RUN)
        for one in found:
            bad = one["impact"] in ("serious", "critical")
            serious += bad
            print(f"{name}: {one['impact']}: {one['id']}: {one['help']}: {'; '.join(one['nodes'][:3])}")
        if not found:
            print(f"{name}: nothing")
    print(f"{serious} serious or critical")
    return 1 if serious else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
