# llmemd - GNU make.
#
#   make            libraries and the daemon          make lint       the walls of the house
#   make run        install what is missing, start    make accuracy   the table of docs/accuracy.md
#   make release    the daemon, a fifth faster: built twice, with gcc's profile of questions
#   make test       every test under tests/           make bench      what bench/ measures (make benches: builds it)
#   make test-asan  the same under ASan and UBSan     make install    DESTDIR= PREFIX=
#   make test-tsan  the same under TSan               make tidy       clang-tidy over core, api, server
#   make test-load  a bad day in MINUTES=1, for any BUILD and SAN
#   make test-peers schemathesis and real parsers (fetches them once)
#   make fuzz       libFuzzer on each target of tests/fuzz: SECONDS=60 (each), TARGET="request query"
#                                                     make clean
#
# Variables: CC, BUILD (where everything that is built goes), SAN (address,undefined or thread), V=1 shows commands;
# to work on a part: ROOMS="base catalog" (folders of core/), TESTS="test_json test_a%" (names of test programs).
# A new file in a folder below is found by itself.

CC      ?= cc
ifeq ($(origin CC),default)
CC      := cc
endif
BUILD   ?= build
SAN     ?=
PREFIX  ?= /usr/local
SYSCONFDIR ?= /etc
VERSION := 0.1.0

MAKEFLAGS += --no-builtin-rules
Q := $(if $(V),,@)

FUZZ_CC  ?= clang

WARN     := -Wall -Wextra -Wconversion -Wshadow -Werror
CFLAGS   := -std=c11 -O3 -g $(WARN) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined))
# The walk calls across files all the time: gcc sees them as one (7 % faster); fat objects, so that nm and a plain ar still read them.
LTO      := $(if $(SAN),,$(shell $(CC) --version 2>/dev/null | grep -q 'Free Software Foundation' && echo -flto=auto -ffat-lto-objects))
# A test program is linked from the machine code in them: whole-program passes for each of fifty would take most of `make test`.
NO_LTO   := $(if $(LTO),-fno-lto)
# `make release` builds twice: once to count which way questions go (tools/profile), once with what gcc makes of that. Once counted, `make` goes on using it.
PROFILE  ?= $(if $(wildcard $(BUILD)/profiled),use)
COUNTED  := $(if $(LTO),$(if $(filter count,$(PROFILE)),-fprofile-generate,$(if $(filter use,$(PROFILE)),-fprofile-use -fprofile-partial-training -Wno-missing-profile -Wno-error)))
CPPFLAGS := -Icore -I. -I$(BUILD)
LDFLAGS  := $(if $(SAN),-fsanitize=$(SAN),-Wl,-z,relro,-z,now)
# What strangers' bytes reach first; core/ calls nothing but the standard library and is left as fast as it is.
HARDEN   := $(if $(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong $(if $(filter x86_64,$(shell uname -m)),-fcf-protection))
LDLIBS   := -lcjson -lyaml -lz -lm

# core/ is standard C and nothing else; api/ too, but knows the version it serves.
api_CPPFLAGS    := -DLLMEMD_VERSION='"$(VERSION)"'
server_CPPFLAGS := $(api_CPPFLAGS) -D_GNU_SOURCE
tests_CPPFLAGS  := $(server_CPPFLAGS)
bench_CPPFLAGS  := $(server_CPPFLAGS)

ROOMS := *
TESTS := %

core_sources   := $(wildcard $(ROOMS:%=core/%/*.c) $(ROOMS:%=core/%/*/*.c))
api_sources    := $(if $(filter *,$(ROOMS)),$(wildcard api/*.c api/*/*.c))
server_sources := $(if $(filter *,$(ROOMS)),$(wildcard server/*.c server/*/*.c))
curl_used      := $(if $(server_sources),$(shell grep -ls 'curl/curl\.h' $(server_sources)))
server_LIBS    := -lmicrohttpd $(if $(curl_used),-lcurl) -lpthread

# One program for each file in these, one for the whole of tests/accuracy.
unit_sources     := $(wildcard tests/unit/*.c tests/api/*.c tests/laws/*.c)
bench_sources    := $(wildcard bench/*.c)
support_sources  := $(wildcard tests/support/*.c)
accuracy_sources := $(if $(filter *,$(ROOMS)),$(wildcard tests/accuracy/*.c))
unit_programs    := $(foreach s,$(unit_sources),$(if $(filter $(TESTS),$(basename $(notdir $(s)))),$(BUILD)/$(basename $(s))))
bench_programs   := $(bench_sources:%.c=$(BUILD)/%)
# The hub's client without the daemon, for tests/hub.
hub_sources      := $(filter server/hub/% server/pack.c,$(server_sources))
hub_units        := $(filter $(BUILD)/tests/unit/test_hub_%,$(unit_programs))
hub_probe        := $(if $(hub_sources),$(BUILD)/tests/hub/hub_probe)
# What the system gives fails, once each: in a test, and before the daemon (LD_PRELOAD).
torture_programs := $(if $(filter *,$(ROOMS)),$(patsubst %.c,$(BUILD)/%,$(foreach s,$(wildcard tests/torture/test_*.c),$(if $(filter $(TESTS),$(basename $(notdir $(s)))),$(s)))))
torture_shared   := $(if $(torture_programs),$(BUILD)/tests/torture/fail.so)
# Fuzz targets: libFuzzer's main where SAN says fuzzer, else driver.c's, which runs the corpus.
fuzz_sources     := $(if $(hub_sources),$(wildcard tests/fuzz/fuzz_*.c))
fuzz_programs    := $(foreach s,$(fuzz_sources),$(if $(filter $(TESTS),$(basename $(notdir $(s)))),$(BUILD)/$(basename $(s))))
fuzz_shared      := $(filter-out $(fuzz_sources) $(if $(findstring fuzzer,$(SAN)),tests/fuzz/driver.c),$(wildcard tests/fuzz/*.c)) tests/support/carried.c \
                    $(filter server/head.c server/policy.c server/log_line.c,$(server_sources))

objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
libs    := $(BUILD)/libapi.a $(BUILD)/libcore.a
# An archive, so that a program without libcheck takes nothing that needs it.
support := $(BUILD)/libsupport.a
daemon  := $(if $(server_sources),$(BUILD)/llmemd)

.PHONY: all run release test test-peers test-load test-asan test-tsan tests fuzz fuzzers lint lint-pure tidy accuracy docs bench benches install install-program install-manual clean FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(libs) $(daemon)

# --- libraries and the daemon --------------------------------------------------------------------------------------------------

# A list that changes only when its content does: a removed source or another flag rebuilds what depended on it.
define list
	@mkdir -p $(@D)
	@printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) > $@
endef

$(BUILD)/core.list: FORCE
	$(call list,$(core_sources))
$(BUILD)/api.list: FORCE
	$(call list,$(api_sources))
$(BUILD)/support.list: FORCE
	$(call list,$(support_sources))
$(BUILD)/hub.list: FORCE
	$(call list,$(hub_sources))
$(BUILD)/flags.list: FORCE
	$(call list,'$(CC) $(CFLAGS) $(LTO) $(COUNTED) $(HARDEN) $(VERSION)')

# ar keeps the members of deleted sources: begin anew.
$(BUILD)/libcore.a: $(call objects,$(core_sources)) $(BUILD)/core.list
	$(Q)rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)

$(BUILD)/libapi.a: $(call objects,$(api_sources)) $(BUILD)/api.list
	$(Q)rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)

$(BUILD)/llmemd: $(call objects,$(server_sources)) $(libs)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LTO) $(COUNTED) $(LDFLAGS) -o $@ $(filter %.o,$^) $(libs) $(LDLIBS) $(server_LIBS)

room = $(firstword $(subst /, ,$(1)))

$(BUILD)/%.o: %.c $(BUILD)/flags.list
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(if $(filter core/%,$<),$(LTO) $(COUNTED)) $(if $(filter server/% api/%,$<),$(HARDEN)) $(CPPFLAGS) $($(call room,$<)_CPPFLAGS) -MMD -MP -c -o $@ $<

-include $(patsubst %.c,$(BUILD)/%.d,$(core_sources) $(api_sources) $(server_sources) $(unit_sources) $(support_sources) $(accuracy_sources) $(bench_sources) $(fuzz_sources) $(wildcard tests/fuzz/*.c tests/torture/test_*.c) tests/hub/hub_probe.c tests/script/script.c tests/reading/reading.c tests/reading/modeling.c)

# --- what is embedded ----------------------------------------------------------------------------------------------------------

include tools/embed.mk

# --- tests ---------------------------------------------------------------------------------------------------------------------

# Lazily: pkg-config may be missing until install-deps has run.
CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck -lsubunit -lrt -lpthread)

$(support): $(call objects,$(support_sources)) $(BUILD)/support.list
	$(Q)rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)

$(unit_programs): $(BUILD)/%: $(BUILD)/%.o $(support) $(libs)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -o $@ $< $(support) $(server_LIB) $(libs) $(LDLIBS) $(CHECK_LIBS) -lpthread

$(BUILD)/libhub.a: $(call objects,$(hub_sources)) $(BUILD)/hub.list
	$(Q)rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)

$(hub_probe) $(hub_units): $(BUILD)/libhub.a
$(hub_units): server_LIB := $(BUILD)/libhub.a
$(hub_units): CHECK_LIBS += -lcurl

$(hub_probe): $(BUILD)/tests/hub/hub_probe.o $(libs)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -o $@ $< $(BUILD)/libhub.a $(libs) $(LDLIBS) -lcurl -lpthread

# Sanitizers may not look into what stands before them.
$(BUILD)/tests/torture/fail.o $(BUILD)/tests/torture/fail.so: tests/torture/fail.c tests/torture/fail.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O1 -g $(WARN) -fPIC -I. $(if $(filter %.so,$@),-shared,-c) -o $@ $<

$(torture_programs): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/tests/torture/fail.o $(support) $(libs)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -Wl,--wrap=arena_push,--wrap=arena_push_raw,--wrap=arena_str -o $@ $(filter %.o,$^) $(support) $(libs) \
	    $(LDLIBS) $(CHECK_LIBS) -lpthread

$(BUILD)/libfuzz.a: $(call objects,$(fuzz_shared))
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

$(fuzz_programs): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libfuzz.a $(BUILD)/libhub.a $(libs)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) $(if $(findstring fuzzer,$(SAN)),-fsanitize=fuzzer) -o $@ $< $(BUILD)/libfuzz.a $(BUILD)/libhub.a $(libs) $(LDLIBS) \
	    -lcurl -lpthread

fuzzers: $(fuzz_programs)

$(BUILD)/accuracy: $(call objects,$(accuracy_sources)) $(support) $(libs)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -o $@ $(filter %.o,$^) $(support) $(libs) $(LDLIBS) -lpthread

# A step of a modelling file of anybody's, event by event: for tools/random-modules.
$(BUILD)/modeling: $(BUILD)/tests/reading/modeling.o $(support) $(libs)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -o $@ $< $(support) $(libs) $(LDLIBS)

# Reads a model from an installed transformers: for tests/reading and docs/reading.md.
$(BUILD)/reading: $(BUILD)/tests/reading/reading.o $(support) $(libs)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -o $@ $< $(support) $(libs) $(LDLIBS)

# Runs a file of core/script's language: for tests/script and for whoever compares with Python.
$(BUILD)/script: $(BUILD)/tests/script/script.o $(libs)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) $(LDFLAGS) -o $@ $< $(libs) $(LDLIBS) -lpthread

$(BUILD)/bench/bench_http: LDLIBS += -lmicrohttpd
$(BUILD)/bench/bench_program: $(BUILD)/server/installed.o $(BUILD)/server/block.o
$(BUILD)/bench/bench_plan: $(BUILD)/server/block.o
$(BUILD)/bench/bench_plan: support += $(BUILD)/server/block.o
$(BUILD)/bench/bench_program: support += $(BUILD)/server/installed.o $(BUILD)/server/block.o
$(bench_programs): $(BUILD)/%: $(BUILD)/%.o $(support) $(libs)
	$(Q)$(CC) $(CFLAGS) $(LTO) $(LDFLAGS) -o $@ $< $(support) $(libs) $(LDLIBS) -lpthread

tests: all $(unit_programs) $(BUILD)/script $(fuzz_programs) $(torture_programs) $(torture_shared) $(hub_probe) $(if $(accuracy_sources),$(BUILD)/accuracy)

# Recursion, because install-deps has to run before anything is built, and in parallel whatever the caller said.
jobs = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))

run:
	@tools/install-deps build
	@$(MAKE) --no-print-directory $(jobs) all
	@exec $(BUILD)/llmemd

release:
	@tools/install-deps build
	@rm -f $(BUILD)/profiled
	@! test -d $(BUILD) || find $(BUILD) -name '*.gcda' -delete
	@$(MAKE) --no-print-directory $(jobs) PROFILE=count $(BUILD)/llmemd
	@tools/profile $(BUILD)/llmemd
	@touch $(BUILD)/profiled
	@$(MAKE) --no-print-directory $(jobs) PROFILE=use all

test:
	@tools/install-deps build test
	@$(MAKE) --no-print-directory $(jobs) tests
	@BUILD=$(BUILD) tests/run $(unit_programs) $(fuzz_programs) $(torture_programs)

# Real peers: schemathesis against the running daemon, the parsers of those whose files we read (PEERS=all). Fetches from PyPI once.
test-peers: all
	@tools/install-peers $(BUILD)/peers
	@for t in tests/peers/*.sh; do case $$t in */daemon.sh|*/boot.sh) continue;; esac; echo "$$t"; \
	    MAKE='$(MAKE)' BUILD=$(BUILD) LLMEMD=$(BUILD)/llmemd PEERS_BIN=$(abspath $(BUILD))/peers/bin sh $$t || \
	    { test $$? = 77 && echo "skipped: $$t"; } || exit 1; done

# Everything at once for MINUTES; with BUILD=build-asan SAN=address,undefined or BUILD=build-tsan SAN=thread under a sanitizer.
MINUTES ?= 1
test-load: all
	@LLMEMD=$(BUILD)/llmemd python3 tests/load/load.py --minutes $(MINUTES)

test-asan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-asan SAN=address,undefined test

test-tsan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-tsan SAN=thread test

# Into $(BUILD)-fuzz/corpus, from there and from tests/fuzz/corpus; what is found lies in $(BUILD)-fuzz/found.
fuzz: SECONDS ?= 60
fuzz: FUZZ_SAN := address,undefined,fuzzer-no-link
fuzz:
	@tools/install-deps build fuzz
	@$(MAKE) --no-print-directory $(jobs) BUILD=$(BUILD)-fuzz CC='$(FUZZ_CC)' SAN=$(FUZZ_SAN) \
	    CFLAGS='-std=c11 -O1 -g $(WARN) -fsanitize=$(FUZZ_SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined' fuzzers
	@BUILD=$(BUILD)-fuzz tests/fuzz/run $(SECONDS) $(TARGET)

accuracy: tests
	$(BUILD)/accuracy

# Alone: one of them is run by its name.
benches: $(bench_programs)

bench: all benches
	@for b in $(bench_programs); do echo "$$b"; LLMEMD=$(BUILD)/llmemd $$b || exit 1; done

# --- lint ----------------------------------------------------------------------------------------------------------------------

docs: $(BUILD)/tests/api/test_options $(BUILD)/tests/api/test_families
	@OPTIONS_FILE=docs/options.md $<
	@FAMILIES_DEF=api/words/families.def FAMILIES_FILE=docs/families.md CK_DEFAULT_TIMEOUT=600 $(word 2,$^) > /dev/null || true

lint: lint-pure
	@tools/lint-arrows
	@tools/lint-versions
	@tools/lint-format
	@tools/lint-security
	@for b in $(bench_sources); do $(CC) $(CFLAGS) $(CPPFLAGS) $(bench_CPPFLAGS) -fsyntax-only $$b || exit 1; done

lint-pure: $(BUILD)/libcore.a
	@tools/lint-pure $<

# Wants clang-tidy (tools/install-deps lint), so it stands apart.
tidy: all
	@for f in $(core_sources) $(api_sources) $(server_sources); do \
	    clang-tidy --quiet $$f -- -std=c11 -D_GNU_SOURCE $(CPPFLAGS) $(api_CPPFLAGS) 2>/dev/null || bad=1; done; test -z "$$bad"

# --- the rest ------------------------------------------------------------------------------------------------------------------

install: install-program install-manual
	@mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(SYSCONFDIR)/llmemd
	sed 's|/usr/local|$(PREFIX)|g' deploy/systemd/llmemd@.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/llmemd@.service
	install -m 644 deploy/systemd/llmemd.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/llmemd docs/operations.md
	test -e $(DESTDIR)$(SYSCONFDIR)/llmemd/llmemd.env || install -m 600 deploy/systemd/llmemd.env $(DESTDIR)$(SYSCONFDIR)/llmemd/

# The program alone, for a container.
install-program: all
	install -D -m 755 $(BUILD)/llmemd $(DESTDIR)$(PREFIX)/bin/llmemd

# Its man page and what shells complete, written by the program itself.
install-manual: all
	@mkdir -p $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	$(BUILD)/llmemd manual > $(DESTDIR)$(PREFIX)/share/man/man1/llmemd.1
	$(BUILD)/llmemd completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/llmemd
	$(BUILD)/llmemd completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_llmemd
	$(BUILD)/llmemd completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/llmemd.fish

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz
