# Needs make and a Python of at least 3.11; everything else is installed into folders of this
# checkout. PYTHON=python3.13 picks the Python that new environments are made with.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo page validate check check-all test format lint suite coverage fuzz oracle notebooks docs site outputs \
    golden network suite-lowest release-check clean

# Folders count too: a file that is taken away changes only its folder.
SOURCES := pyproject.toml README.md LICENSE \
    $(shell find specroof hardware model_configs ! -name __pycache__ ! -name '*.pyc' | \
        sed 's/ /\\ /g')
DEMO_ENV := .venv
TEST_ENV := .build/venv
LOWEST_ENV := .build/venv-lowest
ORACLE_ENV := .build/venv-oracle
RELEASE_ENV := .build/venv-release
RUN := .build/run
SITE := .build/public
# What nobody imports need not be compiled: Python compiles the rest when it is first imported.
PIP_FLAGS := --quiet --disable-pip-version-check --no-compile

# Compiled code is kept out of the checkout, and kept: without it, whoever sets
# PYTHONDONTWRITEBYTECODE waits twice as long for every process that a test starts.
PYCACHE := .build/pycache
COMPILED := -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX="$(CURDIR)/$(PYCACHE)"

# The tests run in $(RUN), a folder that holds copies of what they read and no specroof, so that
# `import specroof` finds the installed wheel or nothing; tests/conftest.py refuses anything else.
TEST_ENVIRONMENT := env -u PYTHONPATH -u PYTHONHOME $(COMPILED) SPECROOF_TEST_WHEEL=1 HYPOTHESIS_PROFILE=ci
PYTEST_FLAGS := -c pyproject.toml --rootdir . -p no:cacheprovider
# PYTEST_WORKERS=0 runs them one after another, in one process.
PYTEST_WORKERS := auto
PARALLEL := -n $(PYTEST_WORKERS) --maxprocesses 8 --dist worksteal
# What is edited, without building a wheel of it.
CHECKOUT_PYTHON = env -u PYTHONHOME $(COMPILED) PYTHONPATH="$(CURDIR)" $(TEST_ENV)/bin/python
CHECKOUT_TESTS = $(CHECKOUT_PYTHON) -m pytest $(PARALLEL)
FUZZ_MINUTES := 60
DEV_PACKAGE := --editable '.[dev,mcp]'

# Make an environment in $(1), unless one with pip is there.
define make_environment
@if ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
    for python in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python); do \
        if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
            >/dev/null 2>&1; then \
            echo "Making $(1) with $$("$$python" --version)"; \
            exec "$$python" -m venv $(1); \
        fi; \
    done; \
    echo "make: needs Python 3.11 or newer with venv and ensurepip; found none as $(or $(PYTHON),python3)" >&2; \
    exit 1; \
fi
endef

# Install $(2) into $(1): with uv, which is faster than pip, looking where pip looks; else with pip.
define install
@set_in_pip() { $(1)/bin/python -m pip config get global.$$1 2>/dev/null | tr '\n' ' '; }; \
index=$$(set_in_pip index-url); more=$$(set_in_pip extra-index-url); links=$$(set_in_pip find-links); \
$(1)/bin/python -m pip install $(PIP_FLAGS) uv && \
env UV_INDEX_STRATEGY=unsafe-best-match $${index:+UV_DEFAULT_INDEX="$${index% }"} $${more:+UV_INDEX="$${more% }"} \
    $${links:+UV_FIND_LINKS="$${links% }"} \
    $(1)/bin/python -m uv pip install --quiet --python $(1)/bin/python $(2) || \
$(1)/bin/python -m pip install $(PIP_FLAGS) $(2)
endef

# Copy what the tests read into $(RUN).
define fill_run_folder
@rm -rf $(RUN) && mkdir -p $(RUN) && \
    cp -Rp pyproject.toml Makefile README.md CONTRIBUTING.md CHANGELOG.md CITATION.cff RELEASING.md SKILL.md llms.txt \
    .github docs release tests notebooks $(RUN) && \
    mkdir $(RUN)/benchmarks && cp -Rp benchmarks/fitting $(RUN)/benchmarks
endef

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | \
	    while IFS='|' read -r target text; do printf '%-24s%s\n' "$$target" "$$text"; done

# --- the demo ----------------------------------------------------------------------------------

DEMO := HF_HUB_OFFLINE=1 MPLBACKEND=agg $(DEMO_ENV)/bin/specroof

# README.md and docs/ print the charts that are drawn here; tests/demo.py reads these lines.
demo: $(DEMO_ENV)/.specroof-installed ## advise and predict on fitted engines, and charts with the plain roofline beside them in demo/
	@mkdir -p demo
	$(DEMO) advise Qwen/Qwen3-32B -H h100 --tp 2 --engine vllm --framework vllm \
	    --input-len 1024 --output-len 512 --concurrency 1,8,32,64,128 \
	    --drafter eagle3,accept-length=2.8@3
	$(DEMO) predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --engine sglang \
	    --context 4096 --batch 32 \
	    --drafter ideal \
	    --drafter autoregressive,accept=0.75,cost=0.10 \
	    --drafter block,accept=0.89,cost=0.10,drafts=16 \
	    --plot demo/speedup-by-draft-length.png
	$(DEMO) sweep demo -o demo --plot
	@echo "Charts:" demo/*.png demo/charts/*.png

page: $(DEMO_ENV)/.specroof-installed ## write the page of all bundled models on twelve chips into site/
	$(DEMO) explore -o site
	@echo "Open site/index.html"

# An editable install: only its metadata can go stale.
$(DEMO_ENV)/.specroof-installed: pyproject.toml
	$(call make_environment,$(DEMO_ENV))
	@echo "Installing specroof into $(DEMO_ENV)"
	@$(DEMO_ENV)/bin/python -m pip install $(PIP_FLAGS) --editable .
	@touch $@

validate: $(DEMO_ENV)/.specroof-installed ## compare predictions with measurements, and draw a chart in notebooks/charts/
	$(DEMO) validate --plot notebooks/charts/predicted-against-measured.png

# --- the tests ---------------------------------------------------------------------------------

FAST_TESTS = HYPOTHESIS_PROFILE=ci $(CHECKOUT_TESTS) -q -m "not network and not slow and not long and not fuzz"

check: lint ## lint, strict types and the fast tests of what differs from SINCE (HEAD): for every edit
	@tests=$$($(CHECKOUT_PYTHON) benchmarks/changed_tests.py --since $(or $(SINCE),HEAD)) || exit 1; \
	if [ -z "$$tests" ]; then echo "make check: no test concerns what was edited"; exit 0; fi; \
	echo "make check:" $$tests; \
	$(FAST_TESTS) $$tests || { status=$$?; [ $$status -eq 5 ] || exit $$status; }

check-all: lint ## lint, strict types and all fast tests of this checkout
	$(FAST_TESTS) ./tests ./benchmarks/fitting specroof

# Lint runs beside the tests, and speaks only where it fails: pytest's closing line stays the last.
test: $(TEST_ENV)/.dev-installed ## lint, strict types, and every test against the built wheel
	@failed=; \
	$(MAKE) --no-print-directory lint >.build/lint.txt 2>&1 & lint=$$!; \
	$(MAKE) --no-print-directory suite || failed="$$failed suite"; \
	wait $$lint || { failed="$$failed lint"; cat .build/lint.txt >&2; }; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi

format: $(TEST_ENV)/.dev-installed ## let ruff format the code and mend what it can
	$(TEST_ENV)/bin/python -m ruff check --fix .
	$(TEST_ENV)/bin/python -m ruff format .

lint: $(TEST_ENV)/.dev-installed ## ruff check, ruff format --check, mypy
	$(TEST_ENV)/bin/python -m ruff check .
	$(TEST_ENV)/bin/python -m ruff format --check .
	$(TEST_ENV)/bin/python -m mypy specroof tests benchmarks/fitting \
	    $(wildcard benchmarks/*.py docs/*.py release/*.py)

suite: $(TEST_ENV)/.wheel-installed ## tests and doctests of the built wheel
	$(fill_run_folder)
	cd $(RUN) && $(TEST_ENVIRONMENT) ../venv/bin/python -m pytest $(PYTEST_FLAGS) \
	    $(PARALLEL) ./tests ./benchmarks/fitting --pyargs specroof

# Measuring takes as long again as the tests do: a job of its own. pytest's closing line stays the
# last one: coverage speaks only where it is not complete.
coverage: $(TEST_ENV)/.wheel-installed ## the same with coverage, which is held at 100 % of branches
	$(fill_run_folder)
	cd $(RUN) && $(TEST_ENVIRONMENT) ../venv/bin/python -m coverage run -m pytest $(PYTEST_FLAGS) \
	    $(PARALLEL) ./tests ./benchmarks/fitting --pyargs specroof
	@cd $(RUN) && ../venv/bin/python -m coverage combine --quiet && \
	    ../venv/bin/python -m coverage report >coverage.txt || { cat coverage.txt; exit 1; }

# Each round has a seed of its own and draws 5000 examples of every test; what fails is kept in
# .hypothesis and drawn first the next time.
fuzz: $(TEST_ENV)/.dev-installed ## draw hostile inputs for FUZZ_MINUTES (60)
	@end=$$(( $$(date +%s) + 60 * $(FUZZ_MINUTES) )); seed=$$(date +%s); rounds=0; \
	while [ "$$(date +%s)" -lt "$$end" ]; do \
	    echo "make fuzz: seed $$seed"; \
	    HYPOTHESIS_PROFILE=fuzz $(CHECKOUT_TESTS) -q -m fuzz --hypothesis-seed $$seed ./tests || \
	        exit 1; \
	    seed=$$((seed + 1)); rounds=$$((rounds + 1)); \
	done; \
	echo "make fuzz: no failure in $$rounds rounds"

# transformers and torch are large, and no part of any other environment.
oracle: pyproject.toml ## compare with the model classes of transformers (installs torch), slow
	$(call make_environment,$(ORACLE_ENV))
	@$(ORACLE_ENV)/bin/python -m pip install $(PIP_FLAGS) --editable . "transformers==5.24.*" torch
	$(ORACLE_ENV)/bin/python benchmarks/oracle model_configs $(ORACLE_CONFIGS)

notebooks: $(TEST_ENV)/.wheel-installed ## execute the notebooks
	$(fill_run_folder)
	cd $(RUN) && $(TEST_ENVIRONMENT) ../venv/bin/python -m pytest $(PYTEST_FLAGS) \
	    ./tests/test_notebooks.py

docs: $(TEST_ENV)/.dev-installed ## build the documentation site into .build/site
	env -u PYTHONHOME PYTHONPATH="$(CURDIR)" NO_MKDOCS_2_WARNING=1 \
	    $(TEST_ENV)/bin/python -m mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "Open .build/site/index.html"

site: $(SITE)/page/index.html ## documentation, interactive page and an answer for each model and chip, in .build/public
	env -u PYTHONHOME PYTHONPATH="$(CURDIR)" NO_MKDOCS_2_WARNING=1 $(TEST_ENV)/bin/python -m mkdocs build \
	    --strict --config-file docs/mkdocs.yml --site-dir $(CURDIR)/.build/docs
	@rm -rf .build/docs/page && find .build/docs -name '*.map' -delete && cp -R .build/docs/. $(SITE)
	$(CHECKOUT_PYTHON) docs/answers.py $(SITE)
	@echo "Open $(SITE)/index.html"

$(SITE)/page/index.html: $(SOURCES) $(TEST_ENV)/.dev-installed
	@mkdir -p $(SITE)
	$(CHECKOUT_PYTHON) -m specroof explore -o $(SITE)/page

outputs: $(TEST_ENV)/.dev-installed ## write into README and docs what their commands print now
	$(CHECKOUT_PYTHON) benchmarks/store_scores.py
	$(CHECKOUT_PYTHON) tests/outputs.py

golden: $(TEST_ENV)/.wheel-installed ## published numbers against predictions; report in .build/golden/
	$(fill_run_folder)
	@mkdir -p .build/golden
	cd $(RUN) && $(TEST_ENVIRONMENT) ../venv/bin/python -m pytest $(PYTEST_FLAGS) \
	    -m golden -rA --junitxml ../golden/report.xml ./tests >../golden/report.txt; \
	    status=$$?; cat ../golden/report.txt; exit $$status

network: $(TEST_ENV)/.wheel-installed ## the tests that reach the Internet
	$(fill_run_folder)
	cd $(RUN) && $(TEST_ENVIRONMENT) ../venv/bin/python -m pytest $(PYTEST_FLAGS) -m network ./tests

suite-lowest: $(LOWEST_ENV)/.wheel-installed ## the tests with the oldest supported dependencies
	$(fill_run_folder)
	cd $(RUN) && $(TEST_ENVIRONMENT) ../venv-lowest/bin/python -m pytest $(PYTEST_FLAGS) \
	    -W default ./tests ./benchmarks/fitting --pyargs specroof

release-check: $(RELEASE_ENV)/.installed ## build a release twice, try it in empty environments, upload nothing
	env -u PYTHONPATH -u PYTHONHOME $(RELEASE_ENV)/bin/python release/check.py .build/release

$(RELEASE_ENV)/.installed: pyproject.toml Makefile
	$(call make_environment,$(RELEASE_ENV))
	@$(RELEASE_ENV)/bin/python -m pip install $(PIP_FLAGS) build cyclonedx-bom "hatchling>=1.27" pipx twine uv
	@touch $@

# The wheel is built from the source distribution, so that both are known to work.
.build/dist/.built: $(SOURCES) $(TEST_ENV)/.dev-installed
	@rm -rf .build/dist && touch .build/started
	@echo "Building the wheel"
	@$(TEST_ENV)/bin/python -m build --no-isolation --outdir .build/dist . >.build/build.log 2>&1 || \
	    { cat .build/build.log; exit 1; }
	@mv .build/started $@

# An editable install: what check and lint need, and what the wheel then takes the place of.
$(TEST_ENV)/.dev-installed: pyproject.toml
	$(call make_environment,$(TEST_ENV))
	@echo "Installing the tools into $(TEST_ENV)"
	@rm -rf $(PYCACHE)
	$(call install,$(TEST_ENV),$(DEV_PACKAGE))
	@touch $@

$(TEST_ENV)/.wheel-installed: .build/dist/.built
	@echo "Installing the wheel into $(TEST_ENV)"
	@$(TEST_ENV)/bin/python -m pip install $(PIP_FLAGS) --force-reinstall --no-deps \
	    .build/dist/specroof-*.whl
	@$(TEST_ENV)/bin/python -m pip check --quiet
	@touch $@

$(LOWEST_ENV)/.wheel-installed: .build/dist/.built
	$(call make_environment,$(LOWEST_ENV))
	@echo "Installing the wheel and the oldest supported dependencies into $(LOWEST_ENV)"
	@$(LOWEST_ENV)/bin/python -m pip install $(PIP_FLAGS) uv
	@$(LOWEST_ENV)/bin/python -m uv pip install --quiet --python $(LOWEST_ENV)/bin/python \
	    --resolution lowest-direct --requirements pyproject.toml --extra dev
	@$(LOWEST_ENV)/bin/python -m pip install $(PIP_FLAGS) --no-deps --force-reinstall \
	    .build/dist/specroof-*.whl
	@touch $@

# --- what is run again and again: benchmarks/README.md says what each prints --------------------

MUTANTS := 200
SEED := 36

# Which test reaches which line: the whole suite once more, with the name of the test beside each line.
.build/mutants/coverage: $(SOURCES) $(shell find tests benchmarks/fitting -name '*.py') $(TEST_ENV)/.dev-installed
	@rm -rf .build/mutants && mkdir -p .build/mutants
	HYPOTHESIS_PROFILE=ci COVERAGE_FILE=$(CURDIR)/.build/mutants/part $(CHECKOUT_PYTHON) -m coverage run \
	    -m pytest $(PARALLEL) -q -p no:cacheprovider -p benchmarks.named_tests --durations 0 \
	    -m "not network and not long and not fuzz" ./tests ./benchmarks/fitting >.build/mutants/coverage.log || \
	    { cat .build/mutants/coverage.log; exit 1; }
	@$(CHECKOUT_PYTHON) -m coverage combine --quiet --data-file $@ .build/mutants/part.*

agreement: $(TEST_ENV)/.dev-installed ## ask 60 drawn loads in every question: the same figures
	SPECROOF_DRAWS=60 $(CHECKOUT_TESTS) -q -p no:cacheprovider ./tests/test_agreement.py

mutants: .build/mutants/coverage ## break the package in MUTANTS (200) small ways, and list what no test notices
	$(CHECKOUT_PYTHON) benchmarks/mutants.py --coverage $< --mutants $(MUTANTS) --seed $(SEED)

figures: ## lines of the package and of its tests, and how many tests, room by room
core-speed: ## points a second of every bundled model; ARGS=OTHER-CHECKOUT compares
drafted-loads: ## speedups at 1 to 512 in flight that no fit counts, beside predictions
engine-definitions: ## printed flags, keys and schedules before the engines' own definitions (ARGS=FOLDER)
engine-flags: ## printed commands before the engines' own parsers (ARGS say where they lie)
engine-rules: ## rules that predictions follow, read in the engines' own sources (ARGS say where they lie)
fit-engines: ## the fit of the engine profiles; ARGS=--write keeps it
fit-local: ## the fit of llama.cpp and MLX; ARGS=--write keeps it
fuzz-mcp: ## drawn calls to the MCP server for minutes
house: ## what a reader of the package must open
same-outputs: ## what drawn commands print here and in ARGS=OTHER-CHECKOUT
same-predictions: ## predictions of drawn set-ups here and in ARGS=OTHER-CHECKOUT
served-loads: ## published loads of servers beside predictions, by any columns (ARGS)
store-scores: ## the scores that validate prints while nothing they depend on changes (a minute)
speed: ## seconds of large grids, played loads and cold starts
vllm-scheduler: ## loads on the scheduler of an unpacked vLLM beside those that are played (ARGS=FOLDER)
engine-kinds: ## every family and kind of drafter through the servers' own checks (ARGS say where they lie)

RUN_AGAIN := figures core-speed drafted-loads engine-definitions engine-flags engine-rules fit-engines fit-local \
    fuzz-mcp house same-outputs same-predictions served-loads speed store-scores vllm-scheduler engine-kinds
.PHONY: agreement mutants $(RUN_AGAIN)
$(RUN_AGAIN): $(TEST_ENV)/.dev-installed
	@$(CHECKOUT_PYTHON) benchmarks/$(subst -,_,$@).py $(ARGS)

clean: ## remove what make built, but not .venv
	rm -rf .build demo site
