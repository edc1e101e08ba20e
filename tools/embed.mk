# What the programs carry within them. Generated headers lie in $(BUILD)/gen and are included as "gen/NAME.inc".
