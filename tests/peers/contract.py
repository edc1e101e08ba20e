"""contract.py OPENAPI.yaml URL: the document is valid, its examples are valid requests, and the answers to them are valid too."""
import json
import sys
import urllib.parse
import urllib.request

import jsonschema
import yaml
from openapi_spec_validator import validate

with open(sys.argv[1], encoding="utf-8") as f:
    contract = yaml.safe_load(f)
validate(contract)
checked = 0


def check(value, schema, what):
    global checked
    whole = dict(schema, components=contract["components"])
    errors = [e.message[:300] for e in jsonschema.Draft202012Validator(whole).iter_errors(value)]
    assert not errors, (what, errors[:3])
    checked += 1


def follow(node):
    while isinstance(node, dict) and "$ref" in node:
        at = contract
        for name in node["$ref"][2:].split("/"):
            at = at[name]
        node = at
    return node


def ask(method, path, body=None):
    request = urllib.request.Request(sys.argv[2] + path, json.dumps(body).encode() if body is not None else None, method=method)
    with urllib.request.urlopen(request, timeout=120) as r:
        return r.headers.get_content_type(), r.read()


for path, operations in contract["paths"].items():
    for method, operation in operations.items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        bodies = [content["example"]] if "example" in content else [e["value"] for e in content.get("examples", {}).values()]
        for body in bodies:
            check(body, content["schema"], (path, "its example"))
        url, query = path, {}
        for p in map(follow, operation.get("parameters", [])):
            if "example" in p:
                check(p["example"], p["schema"], (path, p["name"]))
                if p["in"] == "path":
                    url = url.replace("{%s}" % p["name"], p["example"])
                else:
                    query[p["name"]] = p["example"]
        url += "?" + urllib.parse.urlencode(query) if query else ""
        for body in bodies or [None]:
            kind, answer = ask(method.upper(), url, body)
            expected = follow(operation["responses"]["200"])["content"]
            assert kind in expected, (path, kind)
            if kind == "application/json":
                check(json.loads(answer), expected[kind]["schema"], (path, "the answer"))
print("contract: %d examples and answers are as the contract says" % checked)
