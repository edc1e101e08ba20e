#!/bin/sh
# What CPython 3.11 prints for these programs, up to `done`: at its end it lets go of modules, too. lives_random.py: tools/script-fuzz --text SEED.
cd "$(dirname "$0")" || exit 1
for f in *.py; do python3.11 -W ignore "$f" | sed -n "1,/^done\$/p" > "${f%.py}.out"; done
