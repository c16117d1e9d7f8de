"""Runs the steps of a Dockerfile in folders that replace images, without Docker; needs root.
    python3 tests/dockerfile.py build DOCKERFILE CONTEXT FOLDER IMAGE=ARCHIVE... [ARGUMENT=VALUE...]
creates FOLDER/image, the last stage, and FOLDER/image.json, the configuration of its container; ARCHIVE is a tar of
IMAGE's root folder; an ARGUMENT overrides the value of ARG.
    python3 tests/dockerfile.py run FOLDER [ARGUMENT...]
starts it like `docker run --read-only --tmpfs /tmp`, with FOLDER/volumes as its volumes: with its user, only its own
environment, and a network with this container alone. The process becomes that program, so signals reach it.
Supports only the instructions that are used here, and refuses others."""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# In a private mount namespace: $1 is the root, the rest the command.
SYSTEM = """set -e
root=$1; shift
mkdir -p "$root/proc" "$root/dev" "$root/sys"
for place in proc dev sys; do mount --rbind "/$place" "$root/$place"; done
"""


class Stage:
    def __init__(self, root):
        self.root, self.folder, self.variables, self.volumes = root, "/", [PATH], []
        self.arguments, self.user, self.entry, self.command = [], "root", [], []

    def inside(self, path):
        """The host path of a path in the image."""
        return self.root / os.path.normpath(os.path.join(self.folder, path)).lstrip("/")


def instructions(text):
    """Pairs of an instruction and its arguments."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).split("\n"):
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


def ignored(context, dockerfile):
    """The patterns of .dockerignore, relative to the context."""
    path = Path(str(dockerfile) + ".dockerignore")
    patterns = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    return {Path(p).name for pattern in patterns if pattern for p in glob.glob(str(context) + "/" + pattern.lstrip("/"))}


def copy(sources, target, many):
    if many:
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
    for source, left_out in sources:
        if source.is_dir():
            top = str(source)
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True,
                            ignore=lambda at, names: left_out.intersection(names) if at == top else set())
        else:
            shutil.copy2(source, target)


def run_step(stage, rest):
    if stage.user != "root":
        raise SystemExit("dockerfile.py: RUN after USER is not known here")
    shutil.copy("/etc/resolv.conf", stage.root / "etc/resolv.conf")
    variables = [PATH, "HOME=/root", "DEBIAN_FRONTEND=noninteractive"]  # like Debian's images without a terminal
    inner = "cd %s && %s" % (shlex.quote(stage.folder), rest)
    subprocess.run(["unshare", "--mount", "sh", "-c", SYSTEM + 'exec chroot "$root" "$@"', "sh", stage.root, "env", "-i",
                    *variables, *stage.variables, *stage.arguments, "/bin/sh", "-c", inner], check=True)


def copy_step(stage, rest, stages, context, dockerfile):
    words = shlex.split(rest)
    whence, left_out = context, ignored(context, dockerfile)
    if words[0].startswith("--from="):
        whence, left_out = stages[words.pop(0).removeprefix("--from=")].root, set()
    found = []
    for pattern in words[:-1]:
        found += [Path(p) for p in sorted(glob.glob(os.path.normpath(str(whence) + "/" + pattern)))]
    if not found:
        raise SystemExit("dockerfile.py: COPY %s finds nothing" % rest)
    copy([(p, left_out) for p in found], stage.inside(words[-1]), words[-1].endswith(("/", ".")))


def build(dockerfile, context, folder, given):
    stages, stage = {}, None
    shutil.rmtree(folder / "stages", ignore_errors=True)
    for name, rest in instructions(Path(dockerfile).read_text(encoding="utf-8")):
        print("== %s %s" % (name, rest), flush=True)
        if name == "FROM":
            image, _, label = rest.partition(" AS ")
            stage = stages[label or str(len(stages))] = Stage(folder / "stages" / (label or "last"))
            stage.root.mkdir(parents=True)
            subprocess.run(["tar", "-xf", given[image], "-C", stage.root], check=True)
        elif name == "RUN":
            run_step(stage, rest)
        elif name == "COPY":
            copy_step(stage, rest, stages, context, dockerfile)
        elif name == "WORKDIR":
            stage.folder = os.path.join(stage.folder, rest)
            stage.inside(".").mkdir(parents=True, exist_ok=True)
        elif name == "ARG":
            key = rest.partition("=")[0]
            stage.arguments += ["%s=%s" % (key, given[key])] if key in given else shlex.split(rest)
        elif name == "ENV":
            stage.variables += shlex.split(rest)
        elif name == "VOLUME":
            stage.volumes += shlex.split(rest)
        elif name == "USER":
            stage.user = rest
        elif name in ("ENTRYPOINT", "CMD"):
            setattr(stage, "entry" if name == "ENTRYPOINT" else "command", json.loads(rest))
        elif name != "EXPOSE":
            raise SystemExit("dockerfile.py: %s is not known here" % name)
    shutil.rmtree(folder / "image", ignore_errors=True)
    stage.root.rename(folder / "image")
    what = {key: getattr(stage, key) for key in ("variables", "volumes", "user", "entry", "command", "folder")}
    (folder / "image.json").write_text(json.dumps(what, indent=1), encoding="utf-8")


def run(folder, arguments):
    root, what = folder / "image", json.loads((folder / "image.json").read_text(encoding="utf-8"))
    script = SYSTEM.replace("for place", 'mount --bind "$root" "$root"\nfor place', 1) + 'mount -t tmpfs tmpfs "$root/tmp"\n'
    for number, volume in enumerate(what["volumes"]):
        kept = folder / "volumes" / str(number)
        if not kept.exists():  # a new volume is a copy of the image's folder, with its owner
            shutil.copytree(root / volume.lstrip("/"), kept)
            owner = (root / volume.lstrip("/")).stat()
            os.chown(kept, owner.st_uid, owner.st_gid)
        script += "mount --bind %s \"$root\"%s\n" % (shlex.quote(str(kept)), shlex.quote(volume))
    script += 'ip link set lo up\nmount -o remount,bind,ro "$root"\nexec chroot --userspec=%s "$root" "$@"' % shlex.quote(what["user"])
    os.execvp("unshare", ["unshare", "--mount", "--net", "sh", "-c", script, "sh", str(root), "env", "-i", *what["variables"],
                          *what["entry"], *(arguments or what["command"])])


def main():
    if len(sys.argv) >= 5 and sys.argv[1] == "build":
        given = dict(pair.split("=", 1) for pair in sys.argv[5:])
        build(sys.argv[2], Path(sys.argv[3]).resolve(), Path(sys.argv[4]).resolve(), given)
    elif len(sys.argv) >= 3 and sys.argv[1] == "run":
        run(Path(sys.argv[2]).resolve(), sys.argv[3:])
    else:
        raise SystemExit(__doc__)


main()
