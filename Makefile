# Attention in Detail. `make` lists what can be made.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help book pdf epub course students mark serve test test-more test-oldest test-newest notebooks bench experiments again mutants clean

VENV_PYTHON := .venv/bin/python
# How many processes the tests may use.
WORKERS ?= 2
export WORKERS
# The Python that makes the virtual environment; empty: the first that is new enough.
PYTHON ?=
export PYTHON

# One thread for each process: with more, they wait for each other and the last digits move.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

help: ## list what can be made
	@echo 'Attention in Detail'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F '|' '{ printf "%-18s %s\n", $$1, $$2 }'

book: ## build the pages into _build/html (for publishing: make test, then make book STRICT=1)
	@sh tools/setup_env.sh book 3
	@$(VENV_PYTHON) tools/build_book.py --step 3/3 $(if $(STRICT),--strict)

pdf: ## build the book as a PDF, _build/pdf/attention-in-detail.pdf (needs XeLaTeX; some minutes)
	@sh tools/setup_env.sh book 3
	@$(VENV_PYTHON) tools/build_paper.py pdf --step 3/3

epub: ## build the book as an ePub, _build/epub/attention-in-detail.epub (needs Node.js)
	@sh tools/setup_env.sh book 3
	@$(VENV_PYTHON) tools/build_paper.py epub --step 3/3

course: ## build what a course hands out, _build/course: slides, student notebooks, quiz, project, teacher's guide
	@sh tools/setup_env.sh book 8
	@$(VENV_PYTHON) tools/build_book.py --step 3/8
	@$(VENV_PYTHON) tools/build_course.py --after 3

serve: ## build the pages and show them at http://localhost:8000 (or the next free port)
	@sh tools/setup_env.sh book 4
	@$(VENV_PYTHON) tools/build_book.py --step 3/4
	@$(VENV_PYTHON) tools/serve.py --step 4/4

test: ## check everything: style, unit tests, book, notebooks, pages (under 15 minutes)
	@sh tools/setup_env.sh test 7
	@$(VENV_PYTHON) tools/check.py test

test-more: ## the slower checks: other CPU kernels, more cases, chapters run in a browser, storing and building twice
	@sh tools/setup_env.sh test 13
	@$(VENV_PYTHON) tools/check.py test-more

test-oldest: ## the tests, notebooks and book at the lowest versions that pyproject.toml admits
	@sh tools/setup_env.sh oldest 6
	@.venv-oldest/bin/python tools/check.py test-oldest

test-newest: ## the same at the newest versions that are out: shows what has broken since
	@sh tools/setup_env.sh newest 6
	@.venv-newest/bin/python tools/check.py test-newest

notebooks: ## run the notebooks and store their outputs (one: NB=notebooks/02_attention.ipynb)
	@sh tools/setup_env.sh test 3
	@$(VENV_PYTHON) tools/run_notebooks.py --step 3/3 $(NB)

students: ## make the notebooks for students, without solutions and outputs, in _build/course/notebooks
	@sh tools/setup_env.sh book 3
	@echo '[3/3] notebooks for students'; $(VENV_PYTHON) tools/student_notebooks.py

mark: ## mark a folder of returned notebooks: FOLDER=... (also OUT=marks.csv JOBS=2 TIME=300 MEMORY=2048; needs bubblewrap)
	@[ -n '$(FOLDER)' ] || { echo 'make: which folder? make mark FOLDER=returned' >&2; exit 1; }
	@sh tools/setup_env.sh test 3
	@echo '[3/3] marking'; $(VENV_PYTHON) tools/mark.py '$(FOLDER)' $(if $(OUT),--out '$(OUT)') $(if $(JOBS),--jobs $(JOBS)) \
	    $(if $(TIME),--seconds $(TIME)) $(if $(MEMORY),--memory $(MEMORY)) $(if $(TRUST),--trust)

bench: ## measure again what the pages show as stored (half an hour; one: NAME=multi_head; in a minute, not stored: QUICK=1)
	@[ -z '$(NAME)' ] || [ -f 'bench/$(NAME).py' ] || { \
	    echo 'make: there is no measurement $(NAME); there are:' \
	        $(notdir $(basename $(shell grep -l __main__ bench/*.py))) >&2; exit 1; }
	@sh tools/setup_env.sh test 3
	@for script in $$(grep -l __main__ bench/$(if $(QUICK),multi_head,$(or $(NAME),*)).py); do \
	    echo "[3/3] measurements: $$script"; \
	    $(VENV_PYTHON) tools/with_progress.py "$$script" $(if $(QUICK),--quick) || exit 1; \
	done

experiments: ## run all experiments of Part III again on all seeds, an hour or more (one: NAME=direction)
	@[ -z '$(NAME)' ] || [ -f 'experiments/$(NAME).py' ] || { \
	    echo 'make: there is no experiment $(NAME); there are:' \
	        $(notdir $(basename $(shell grep -l __main__ experiments/*.py))) >&2; exit 1; }
	@sh tools/setup_env.sh test 4
	@for script in $$(grep -l __main__ experiments/$(or $(NAME),*).py); do \
	    echo "[3/4] experiments: $$script"; \
	    $(VENV_PYTHON) "$$script" || exit 1; \
	done
	@echo "[4/4] numbers in the text"; $(VENV_PYTHON) tools/fill_measured.py

again: ## does today's code give what the experiments stored? The first seed of each (minutes; one: NAME=direction)
	@[ -z '$(NAME)' ] || [ -f 'experiments/$(NAME).py' ] || { \
	    echo 'make: there is no experiment $(NAME)' >&2; exit 1; }
	@sh tools/setup_env.sh test 3
	@failed=; for script in $$(grep -l __main__ experiments/$(or $(NAME),*).py); do \
	    echo "[3/3] measured again: $$script"; \
	    $(VENV_PYTHON) "$$script" --again || failed=1; \
	done; [ -z "$$failed" ]

mutants: ## change the core modules in a thousand small ways: do the tests notice? (5 to 10 minutes; goes on where it stopped)
	@sh tools/setup_env.sh test 3
	@$(VENV_PYTHON) tools/mutants.py --step 3/3

clean: ## remove everything that make has made
	rm -rf .venv .venv-oldest .venv-newest .venv-lock _build .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*
	rm -rf src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
