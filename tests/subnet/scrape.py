"""Asks an exporter for its metrics until one has at least a value, and prints those of InfiniBand."""

import re
import sys
import time
import urllib.request

port, metric, least, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), 60
for _ in range(seconds * 20):
    time.sleep(0.05)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=seconds) as answer:
            text = answer.read().decode()
    except OSError:
        # It does not listen yet.
        continue
    found = re.search(rf"^{metric}{{.*}} (\S+)$", text, re.MULTILINE)
    if found and float(found[1]) >= least:
        print("\n".join(line for line in text.splitlines() if line.startswith("node_infiniband_")))
        break
else:
    sys.exit(f"{metric} does not reach {least}")
