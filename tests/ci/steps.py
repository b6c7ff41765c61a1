"""Prints the commands of a CI file, in order, as JSON: the scripts of an action or of a workflow, or the commands
before a job's own. For an interpreter that reads YAML."""

import json
import sys

from ruamel.yaml import YAML

with open(sys.argv[1], encoding="utf-8") as file:
    said = YAML(typ="safe").load(file)
if "runs" in said:
    steps = [{"id": step.get("id"), "env": step.get("env", {}), "run": step["run"]} for step in said["runs"]["steps"]]
elif "jobs" in said:
    steps = [{"id": step.get("id"), "env": step.get("env", {}), "run": step["run"]}
             for job in said["jobs"].values() for step in job["steps"] if "run" in step]
else:
    job = said[".verbena"]
    steps = [{"id": None, "env": job["variables"], "run": "\n".join(job["before_script"])}]
print(json.dumps(steps))
