"""docs_pages.py FOLDER — the pages of script/docs: a tree of Markdown files and mkdocs.yml."""
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys

import tutti

ROOT = pathlib.Path(__file__).resolve().parent.parent
MENU = {
    "Home": "README.md",
    "Begin": ["docs/README.md", "docs/install.md", "docs/first-model.md", "docs/python.md"],
    "How to": ["docs/report.md", "docs/training.md", "docs/data.md", "docs/many-targets.md", "docs/by.md",
               "docs/front.md", "docs/fine-tuning.md", "docs/uncertainty.md", "docs/active-learning.md",
               "docs/oracle.md", "slurm/README.md", "docs/gpu.md", "docs/large-members.md", "docs/embedding.md",
               "docs/trainer.md", "docs/troubleshooting.md"],
    "Background": ["docs/reliability.md", "docs/benchmarks.md"],
    "Reference": ["docs/options.md", "docs/files.md", "docs/json.md", "docs/glossary.md"],
}


def verbs(*family):
    """Commands, those of families as `campaign run`."""
    text = subprocess.run(["tutti", "help", *family], capture_output=True, text=True, check=True).stdout
    for verb, files in re.findall(r"^  (\w+) (\S*)", text, re.M):
        yield from verbs(*family, verb) if files == "VERB" else [(*family, verb)]


def write(tree, name, text):
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)
    return name


def command_pages(tree):
    for words in verbs():
        text = subprocess.run(["tutti", "help", *words], capture_output=True, text=True, check=True).stdout
        yield write(tree, f"commands/{'-'.join(words)}.md", f"# tutti {' '.join(words)}\n\n```text\n{text}```\n")


def class_pages(tree):
    for name in (name for name in tutti.__all__ if inspect.isclass(getattr(tutti, name))):
        kind = getattr(tutti, name)
        text = [f"# tutti.{name}", f"```text\n{inspect.getdoc(kind)}\n```"]
        for method, what in inspect.getmembers(kind, inspect.isroutine):
            if not method.startswith("_") and what.__doc__ and "tutti" in (getattr(what, "__module__", "") or ""):
                text.append(f"## {method}\n\n```text\n{method}{inspect.signature(what)}\n\n{inspect.getdoc(what)}\n```")
        yield write(tree, f"classes/{name}.md", "\n\n".join(text) + "\n")


def copy_pages(tree):
    """All pages, and the files that they show or link."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"),
             *ROOT.glob("examples/*/README.md"), *(ROOT / f"{room}/README.md" for room in ("slurm", "packaging", "cuda")),
             ROOT / "bench/NOTES.md"]
    for page in pages:
        text = page.read_text()
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            target = (page.parent / link).resolve()
            if "://" in link or target in pages or ROOT not in target.parents:
                continue
            if target.is_dir():  # a folder: its page, or none
                text = text.replace(f"]({link})", f"]({link.rstrip('/')}/README.md)"
                                    if (target / "README.md").exists() else f"](#{target.name}){{: .folder }}")
                text = re.sub(r"\[([^]]*)\]\(#[\w.-]+\)\{: \.folder \}", r"\1", text)
            elif target.suffix != ".md":
                (tree / target.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(target, tree / target.relative_to(ROOT))
            else:  # records that are not part of the menu, without their links
                plain = re.sub(r"\[([^]]*)\]\((?!http)[^)]*\)", r"\1", target.read_text())
                write(tree, str(target.relative_to(ROOT)), plain)
        # mkdocs needs an empty line before a list.
        write(tree, str(page.relative_to(ROOT)), re.sub(r"^([^\n|#-][^\n]*)\n(?=- )", r"\1\n\n", text, flags=re.M)
              if page.name == "README.md" else text)


def main(folder):
    folder = pathlib.Path(folder).resolve()
    tree = folder / "pages"
    shutil.rmtree(tree, ignore_errors=True)
    copy_pages(tree)
    menu = [{name: pages} for name, pages in MENU.items()]
    menu[-1]["Reference"] += [{"Commands": list(command_pages(tree))}, {"Python": list(class_pages(tree))}]
    menu.append({"Examples": sorted(str(p.relative_to(tree)) for p in tree.glob("examples/*/README.md"))})
    menu.append({"Internals": sorted(str(p.relative_to(tree)) for p in tree.glob("docs/internals/*.md"))})
    settings = {
        "site_name": "tutti", "docs_dir": str(tree), "site_dir": str(folder / "site"), "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": ["navigation.indexes", "content.code.copy"],
                  "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default"},
                              {"media": "(prefers-color-scheme: dark)", "scheme": "slate"}]},
        "plugins": ["search"], "nav": menu,
        "markdown_extensions": ["tables", "fenced_code", "attr_list", {"toc": {"permalink": True}}],
        "not_in_nav": "CHANGELOG.md\nCONTRIBUTING.md\nbench/\ncuda/\npackaging/\ntests/\n",
        "validation": {"nav": {"omitted_files": "warn"}, "links": {"anchors": "warn", "not_found": "warn"}},
    }
    (folder / "mkdocs.yml").write_text(json.dumps(settings, indent=1))  # JSON is YAML


main(sys.argv[1])
