#!/usr/bin/env python3
"""Runs a tracer of the oracle over models of several parts (AutoModelForImageTextToText), which AutoModelForCausalLM makes of their text alone.

    composite.py trace.py | dist_trace.py ARGUMENT ..      from the oracle's folder
"""
import os
import runpy
import sys

sys.path.insert(0, os.getcwd())
import environment  # noqa: E402  the oracle's: starts Python anew under its runtime

environment.ensure()
import transformers  # noqa: E402

transformers.AutoModelForCausalLM._model_mapping = transformers.AutoModelForImageTextToText._model_mapping
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
