"""Runs a notebook from its first cell to its last: notebook.py NOTEBOOK EXECUTED

EXECUTED is the notebook with its present outputs; docs/ is renewed with it.
"""

import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=90, kernel_name="python3", record_timing=False).execute()
# Metadata that depend on the machine.
notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
nbformat.write(notebook, sys.argv[2])
