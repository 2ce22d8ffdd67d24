"""Repositories that would have git run a program, or that say that they are somewhere else."""

import os

from promises.clones import put, repository


@repository
def git_watches_files_by_a_program(clone):
    clone.git("config", "core.fsmonitor", clone.program("monitor"))
    clone.git("config", "core.untrackedCache", "true")
    clone.write("new.txt", "new\n")


@repository
def git_has_hooks(clone):
    for place in (".git/hooks", "hooks"):
        for name in ("post-index-change", "pre-auto-gc", "reference-transaction", "post-checkout"):
            clone.program(f"{place}/{name}")
    clone.git("config", "core.hooksPath", "hooks")
    # Its time is another one, its text is not: git would like to write that down.
    os.utime(clone.path("README.md"), (1, 1))


@repository
def git_filters_files(clone):
    evil = clone.program("filter")
    clone.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
    clone.write("README.md", "Another project.\n")
    clone.write("new.txt", "new\n")
    for key in ("clean", "smudge", "process"):
        clone.git("config", f"filter.evil.{key}", evil)
    clone.git("config", "filter.evil.required", "true")
    for key in ("textconv", "command"):
        clone.git("config", f"diff.evil.{key}", evil)
    clone.git("config", "merge.evil.driver", evil)


@repository
def git_filters_named_to_be_missed(clone):
    evil = clone.program("filter")
    clone.write(".git/info/attributes", "* filter=a=b.c\n")
    clone.write("README.md", "Another project.\n")
    clone.write(".git/more", f'[filter "a=b.c"]\n\tclean = {evil}\n\tprocess = {evil}\n')
    clone.git("config", "include.path", "more")


@repository
def git_calls_other_programs(clone):
    evil = clone.program("evil")
    for key in (
        "diff.external", "core.pager", "core.editor", "core.sshCommand", "core.askPass",
        "credential.helper", "gpg.program", "pager.diff", "sequence.editor", "alias.ls-files",
        "core.gitProxy", "core.alternateRefsCommand", "uploadpack.packObjectsHook",
        "interactive.diffFilter", "trailer.x.command",
    ):  # fmt: skip
        clone.git("config", key, f"!{evil}" if key.startswith("alias") else evil)
    clone.write("README.md", "Another project.\n")


@repository
def git_fetches_what_is_missing(clone):
    evil = clone.program("evil")
    objects = clone.path(".git/objects")
    for folder, _, names in os.walk(objects):
        for name in names:
            os.unlink(os.path.join(folder, name))
    for key, value in (
        ("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"),
        ("remote.origin.url", "ssh://nowhere/x"), ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", evil), ("core.sshCommand", evil),
        ("protocol.allow", "always"), ("protocol.ssh.allow", "always"),
    ):  # fmt: skip
        clone.git("config", key, value)
    clone.write("README.md", "Another project.\n")


@repository
def git_includes_what_lies_elsewhere(clone):
    evil = clone.program("evil")
    clone.write(
        "config",
        f"[core]\n\tfsmonitor = {evil}\n\thooksPath = {clone.root}\n"
        f'[filter "x"]\n\tclean = {evil}\n',
    )
    clone.git("config", "includeIf.gitdir:/.path", "../config")
    clone.git("config", "core.attributesFile", clone.path("attributes"))
    clone.write("attributes", "* filter=x\n")
    clone.write("README.md", "Another project.\n")
    clone.program("post-index-change")


@repository
def a_submodule_with_its_own_config(clone):
    os.makedirs(clone.path("sub"))
    clone.git("init", "-q", at="sub")
    clone.write("sub/a.txt", "a\n")
    clone.git("add", "a.txt", at="sub")
    clone.git("commit", "-q", "-m", "a", at="sub")
    clone.write(
        ".gitmodules", f'[submodule "sub"]\n\tpath = sub\n\turl = ./x\n\tupdate = !{clone.canary}\n'
    )
    clone.git("add", "sub", ".gitmodules")
    clone.git("commit", "-q", "-m", "sub")
    evil = clone.program("evil")
    clone.write("sub/.gitattributes", "* filter=evil\n")
    clone.write("sub/a.txt", "b\n")
    clone.git("config", "core.fsmonitor", evil, at="sub")
    clone.git("config", "filter.evil.clean", evil, at="sub")
    clone.git("config", "submodule.sub.update", f"!{clone.canary}")
    clone.starts = ["", "sub"]


@repository
def a_bare_repository_inside(clone):
    """Such a one comes with an ordinary clone, as ordinary files."""
    evil = clone.program("evil")
    clone.write("inner/HEAD", "ref: refs/heads/main\n")
    clone.write(
        "inner/config",
        f"[core]\n\tbare = true\n\trepositoryformatversion = 0\n\tfsmonitor = {evil}\n"
        f"\tworktree = {clone.outside}\n[alias]\n\tls-files = !{evil}\n"
        f'[filter "x"]\n\tclean = {evil}\n',
    )
    clone.write("inner/objects/.keep", "")
    clone.write("inner/refs/.keep", "")
    clone.starts = ["inner", "inner/objects"]


@repository
def a_bare_repository_of_somebody_else(clone):
    """It says that most of it lies elsewhere."""
    clone.another(os.path.join(clone.outside, "other"))
    clone.write("inner/HEAD", "ref: refs/heads/main\n")
    clone.write("inner/config", "[core]\n\tbare = true\n")
    clone.write("inner/commondir", f"{clone.outside}/other/.git\n")
    clone.starts = ["inner"]


@repository
def a_git_folder_that_is_elsewhere(clone):
    """It may be read, as git does; it is not written to."""
    clone.another(os.path.join(clone.base, "other"))
    for name, pointer in (("a", "../../other/.git"), ("b", "../b-git")):
        clone.write(f"{name}/.git", f"gitdir: {pointer}\n")
    clone.write("b-git/HEAD", "ref: refs/heads/main\n")
    clone.write("b-git/commondir", "../../other/.git\n")
    clone.starts = ["a", "b"]


@repository
def git_files_that_never_end(clone):
    for name, target in (("a", "/dev/zero"), ("b", "/proc/kmsg"), ("c", "/dev/stdin")):
        clone.write(f"{name}/HEAD", "ref: refs/heads/main\n")
        clone.link(f"{name}/config", target)
    clone.starts = ["a", "c"]


@repository
def inner_git_files_that_never_end(clone):
    """Git itself would read the first one for ever, so this is not looked at from above."""
    clone.link("d/.git/HEAD", "/dev/zero")
    clone.write("e/.git/HEAD", "ref: refs/heads/main\n")
    os.mkfifo(clone.path("e/.git/config"))
    os.mkfifo(clone.path("e/.git/commondir"))
    clone.starts = ["d", "e"]


@repository
def git_excludes_in_a_file_elsewhere(clone):
    put(os.path.join(clone.home, ".profile"), "echo mine\n")
    os.unlink(clone.path(".git/info/exclude"))
    clone.link(".git/info/exclude", os.path.join(clone.home, ".profile"))
