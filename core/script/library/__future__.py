# What is asked for by `from __future__ import` is so already.
annotations = division = print_function = None
