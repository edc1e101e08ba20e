# What the programs carry within them. Generated parts lie in $(BUILD)/gen; `#include "gen/NAME.inc"` in the middle of an
# initialiser. The tool runs while building, so it is never built with a sanitizer.

embed := $(BUILD)/tools/embed
data  := core/catalog/data

$(embed): $(wildcard tools/embed*.c) tools/embed.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O1 $(WARN) -I. -o $@ $(filter %.c,$^) -lz

# The columns that core/catalog/gpus.h declares: s string, n number.
gpu_columns := name:s aliases:s vendor:s arch:s compute_capability:s multiprocessors:n memory_gb_marketing:n memory_bytes:n \
               usable_bytes:n context_mib:n board_power_w:n l2_bytes:n mem_bw_gbs:n fp32_tflops:n tf32_tflops:n fp16_tflops:n bf16_tflops:n \
               matmul_bf16_best_tflops:n nvlink_gen:s nvlink_gbs_per_dir:n pcie_gen:s

$(BUILD)/gen/gpus.inc: $(data)/gpus.csv $(embed) tools/embed.mk
	@mkdir -p $(@D)
	$(Q)$(embed) rows $< $(gpu_columns) > $@

cluster_columns := name:s aliases:s gpu:s gpus_per_node:n nodes:n host_memory_gb_per_node:n intra_node:s inter_node:s status:s \
                   slurm.partition:s slurm.small_partition:s slurm.small_gpus:n slurm.account:s slurm.gpus:s slurm.cpus_per_gpu:n \
                   slurm.gb_per_gpu:n slurm.options:s slurm.time_limit:s slurm.modules:s slurm.environment:s

$(BUILD)/gen/clusters.inc: $(data)/clusters.csv $(embed) tools/embed.mk
	@mkdir -p $(@D)
	$(Q)$(embed) rows $< $(cluster_columns) > $@

link_columns := name:s kind:s scope:s theoretical_gbs_per_dir:n measured_bus_gbs:n measured_setup:s latency_us:n

$(BUILD)/gen/links.inc: $(data)/links.csv $(embed) tools/embed.mk
	@mkdir -p $(@D)
	$(Q)$(embed) rows $< $(link_columns) > $@

$(BUILD)/gen/renamed.inc: $(data)/renamed.csv $(embed) tools/embed.mk
	@mkdir -p $(@D)
	$(Q)$(embed) rows $< from:s to:s > $@

# GET /gpus and /clusters: every column that helps to choose or to check, by its name in the answer.
gpus_json := name:s:name aliases:l:aliases vendor:s:vendor arch:s:arch compute_capability:s:compute_capability multiprocessors:n:multiprocessors \
             memory_gb_marketing:n:memory_gb_marketing memory_bytes:n:memory_bytes memory_source:s:memory_source usable_bytes:n:usable_bytes \
             context_mib:M:context_bytes context_source:s:context_source mem_bw_gbs:n:memory_gbs fp32_tflops:n:fp32_tflops \
             tf32_tflops:n:tf32_tflops fp16_tflops:n:fp16_tflops bf16_tflops:n:bf16_tflops fp8_tflops:n:fp8_tflops int8_tops:n:int8_tops \
             nvlink_gen:s:nvlink_generation nvlink_gbs_per_dir:n:nvlink_gbs_per_direction pcie_gen:s:pcie_generation \
             matmul_bf16_best_tflops:n:matmul_bf16_best_tflops matmul_fp8_best_tflops:n:matmul_fp8_best_tflops source:l:source \
             unverified:c:unverified notes:s:notes

$(BUILD)/gen/gpus_json.inc: $(data)/gpus.csv $(embed) tools/embed.mk
	@mkdir -p $(@D)
	$(Q)$(embed) json $< $(gpus_json) > $@

clusters_json := name:s:name aliases:l:aliases site:s:site gpu:s:gpu gpus_per_node:n:gpus_per_node nodes:n:nodes \
                 host_memory_gb_per_node:G:host_memory_bytes_per_node cpu_cores_per_node:n:cpu_cores_per_node \
                 cpu_cores_per_gpu:n:cpu_cores_per_gpu local_scratch_gb:n:local_scratch_gb intra_node:s:intra_node inter_node:s:inter_node \
                 network_gbps_per_node:n:network_gbps_per_node slurm_partition:l:slurm_partitions slurm_account_flag:s:slurm_account_flag \
                 slurm_gpu_flag:s:slurm_gpu_flag time_limit:s:time_limit status:s:status source:l:source unverified:c:unverified notes:s:notes

$(BUILD)/gen/clusters_json.inc: $(data)/clusters.csv $(embed) tools/embed.mk
	@mkdir -p $(@D)
	$(Q)$(embed) json $< $(clusters_json) > $@

configs := $(sort $(wildcard $(data)/configs/*.json))

$(BUILD)/configs.list: FORCE
	$(call list,$(configs))

$(BUILD)/gen/models.inc $(BUILD)/gen/blocks.inc: $(BUILD)/gen/%.inc: $(data)/models.csv $(configs) $(BUILD)/configs.list $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) $* $(data)/models.csv $(data)/configs > $@

# Programs in the language: what stands for torch's Python, for transformers, and the families, one file each.
torch_library        := $(sort $(shell find core/natives/library -name '*.py'))
transformers_library := $(sort $(shell find core/models/library -name '*.py'))
families             := $(sort $(wildcard core/models/families/*.py))
otherwise            := $(sort $(shell find core/models/releases -name '*.py'))

$(BUILD)/programs.list: FORCE
	$(call list,$(torch_library) $(transformers_library) $(families) $(otherwise))

$(BUILD)/gen/programs.inc: $(torch_library) $(transformers_library) $(families) $(otherwise) $(BUILD)/programs.list $(embed)
	@mkdir -p $(@D)
	$(Q){ $(embed) modules torch core/natives/library $(torch_library) && \
	      $(embed) modules transformers core/models/library $(transformers_library) && \
	      $(embed) modules transformers.models core/models/families $(families) && \
	      $(embed) modules transformers.releases core/models/releases $(otherwise); } > $@

# What stands around an installed transformers: its own PreTrainedModel, guards and packages, and the flash-attn files of the library.
installed_around := $(sort $(shell find core/models/installed -name '*.py'))
installed_shared := core/models/library/integrations/flash_attention.py core/models/library/modeling_flash_attention_utils.py \
                    core/models/library/modeling_stage.py
# What files of a request import beside that: it continues the library's files, or is one of its own.
wide := $(sort $(shell find core/models/wide -name '*.py'))

# What stands in for modules that files of strangers import and training has no use for.
stand_in := $(sort $(shell find core/models/stand_in -name '*.py'))

$(BUILD)/installed.list: FORCE
	$(call list,$(installed_around) $(wide) $(stand_in))

$(BUILD)/gen/stand_in.inc: $(stand_in) $(BUILD)/installed.list $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) modules '' core/models/stand_in $(stand_in) > $@

$(BUILD)/gen/wide.inc: $(wide) $(BUILD)/installed.list $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) modules transformers core/models/wide $(wide) > $@

$(BUILD)/gen/installed.inc: $(installed_around) $(installed_shared) $(torch_library) $(BUILD)/installed.list $(embed)
	@mkdir -p $(@D)
	$(Q){ $(embed) modules torch core/natives/library $(torch_library) && \
	      $(embed) modules transformers core/models/library $(installed_shared) && \
	      $(embed) modules '' core/models/installed $(installed_around); } > $@

$(BUILD)/gen/openapi.inc: openapi.yaml $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

$(BUILD)/gen/page_html.inc: api/web/index.html $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

# The page's script is the files of api/web in the order of their names; its style begins with the chart library's.
page_scripts := $(sort $(wildcard api/web/*.js))
page_styles  := api/web/vendor/uPlot.min.css api/web/page.css

$(BUILD)/web/page.js: $(page_scripts)
	@mkdir -p $(@D)
	$(Q)cat $^ > $@

$(BUILD)/web/page.css: $(page_styles)
	@mkdir -p $(@D)
	$(Q)cat $^ > $@

$(BUILD)/web/uplot.js: api/web/vendor/uPlot.iife.min.js
	@mkdir -p $(@D)
	$(Q)cp $< $@

# docs/glossary.md as a page: each row of its table is a term.
$(BUILD)/web/glossary.html: docs/glossary.md tools/glossary.awk
	@mkdir -p $(@D)
	$(Q)awk -f tools/glossary.awk $< > $@

$(BUILD)/gen/page_js.inc $(BUILD)/gen/page_css.inc: $(BUILD)/gen/page_%.inc: $(BUILD)/web/page.% $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

$(BUILD)/gen/uplot_js.inc: $(BUILD)/web/uplot.js $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

$(BUILD)/gen/icon_svg.inc: api/web/icon.svg $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

$(BUILD)/gen/glossary_html.inc: $(BUILD)/web/glossary.html $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

# Modules of core/script's language, in the language.
library := $(patsubst core/script/library/%.py,%,$(wildcard core/script/library/*.py))

$(BUILD)/gen/library_%.inc: core/script/library/%.py $(embed)
	@mkdir -p $(@D)
	$(Q)$(embed) text $< > $@

# The first build has no dependency files yet.
$(BUILD)/core/script/library.o: $(library:%=$(BUILD)/gen/library_%.inc)
$(BUILD)/core/catalog/gpus.o: $(BUILD)/gen/gpus.inc
$(BUILD)/core/catalog/clusters.o: $(BUILD)/gen/clusters.inc
$(BUILD)/core/catalog/links.o: $(BUILD)/gen/links.inc
$(BUILD)/core/catalog/renamed.o: $(BUILD)/gen/renamed.inc
$(BUILD)/core/catalog/builtin.o: $(BUILD)/gen/models.inc $(BUILD)/gen/blocks.inc
$(BUILD)/core/models/programs.o: $(BUILD)/gen/programs.inc
$(BUILD)/core/models/around.o: $(BUILD)/gen/installed.inc
$(BUILD)/core/models/library.o: $(BUILD)/gen/wide.inc
$(BUILD)/core/models/stand_in.o: $(BUILD)/gen/stand_in.inc
$(BUILD)/api/endpoints/page.o: $(BUILD)/gen/page_html.inc $(BUILD)/gen/page_js.inc $(BUILD)/gen/page_css.inc $(BUILD)/gen/uplot_js.inc \
    $(BUILD)/gen/glossary_html.inc $(BUILD)/gen/icon_svg.inc
$(BUILD)/api/endpoints/machines.o: $(BUILD)/gen/gpus_json.inc $(BUILD)/gen/clusters_json.inc
ifneq ($(wildcard openapi.yaml),)
$(call objects,$(api_sources)): | $(BUILD)/gen/openapi.inc
endif
