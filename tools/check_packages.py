#!/usr/bin/env python3
"""Packs quire with CPack and checks the packages, the systemd unit and the size of the executable.

    tools/check_packages.py                       checks that need no network; prints what is skipped
    tools/check_packages.py --clean-root DIR      also makes a Debian 12 system in DIR with debootstrap (needs root and network).
                                                  There it installs and uses the .deb and the .rpm, and starts quire.service under
                                                  systemd (needs systemd-nspawn)
    tools/check_packages.py --container TOOL      also builds packaging/Dockerfile with docker or buildah and runs the image
                                                  (needs root and network). --own-base makes debian:12-slim with debootstrap
                                                  instead of pulling it
"""

import argparse
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

import package_roots
from package_roots import output_of, proc_in

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = "packages"  # folder in the build folder
MAX_BYTES = 40_000_000  # of the executable, without the embedded model
MAX_EXPOSURE = 2.0  # of the systemd unit, in `systemd-analyze security`; 10 = no sandboxing
PROGRAM_FILES = ["usr/bin/quire", "usr/share/man/man1/quire.1.gz", "usr/share/bash-completion/completions/quire",
                 "usr/share/zsh/vendor-completions/_quire", "usr/share/fish/vendor_completions.d/quire.fish",
                 "usr/lib/systemd/system/quire.service", "usr/share/doc/quire/copyright"]
LIBRARY_FILES = ["usr/include/quire/llm.h", "libquire.a", "cmake/quire/quireConfig.cmake"]


def check_size(build):
    size = (build / "quire").stat().st_size - (build / "linked_model.bundle").stat().st_size
    assert size < MAX_BYTES, f"the executable without its model has {size} bytes, more than {MAX_BYTES}"
    return f"{size / 1e6:.1f} MB without the embedded model"


def pack(build, generator):
    for package in (build / PACKAGES).glob(f"*.{generator.lower()}"):
        package.unlink()
    output_of("cpack", "-G", generator, cwd=build)


def check_names(names, wanted):
    missing = [name for name in wanted if not any(found.rstrip("/").endswith(name) for found in names)]
    assert not missing, f"not in the package: {', '.join(missing)}"


def check_deb(build):
    pack(build, "DEB")
    program = next((build / PACKAGES).glob("quire_*.deb"))
    library = next((build / PACKAGES).glob("libquire-dev_*.deb"))
    check_names([line.split()[-1] for line in output_of("dpkg-deb", "-c", program).splitlines()], PROGRAM_FILES)
    check_names([line.split()[-1] for line in output_of("dpkg-deb", "-c", library).splitlines()], LIBRARY_FILES)
    fields = output_of("dpkg-deb", "-f", program)
    assert re.search(r"^Depends: libc6 \(>= [\d.]+\)$", fields, re.MULTILINE), fields
    return f"{program.name}, {program.stat().st_size / 1e6:.1f} MB"


def check_rpm(build):
    if not shutil.which("rpmbuild"):
        return None
    pack(build, "RPM")
    program = next((build / PACKAGES).glob("quire-[0-9]*.rpm"))
    library = next((build / PACKAGES).glob("quire-devel-*.rpm"))
    check_names(output_of("rpm", "-qlp", program).splitlines(), PROGRAM_FILES)
    check_names(output_of("rpm", "-qlp", library).splitlines(), LIBRARY_FILES)
    needs = set(re.findall(r"^(\S+?\.so)", output_of("rpm", "-qRp", program), re.MULTILINE))
    assert needs <= {"libc.so", "libm.so", "ld-linux-x86-64.so"}, needs
    return f"{program.name}, {program.stat().st_size / 1e6:.1f} MB"


def check_unit(build):
    if not shutil.which("systemd-analyze"):
        return None
    unit = build / PACKAGES / "quire.service"
    text = (ROOT / "packaging" / "quire.service").read_text()
    # systemd-analyze looks for the program and its manual page.
    unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE).replace("/usr/bin/quire", str(build / "quire")))
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert verified.returncode == 0 and "quire.service" not in verified.stderr, verified.stderr
    score = float(re.search(r"exposure level for quire.service: ([\d.]+)",
                            output_of("systemd-analyze", "security", "--offline=true", "--no-pager", unit))[1])
    assert score <= MAX_EXPOSURE, f"exposure {score}, more than {MAX_EXPOSURE}"
    # The program works without executable memory (MemoryDenyWriteExecute): PR_SET_MDWE, which older kernels ignore.
    run = subprocess.run([build / "quire", "generate", "--prompt", "Once", "--max-tokens", "8", "--kv-cache-memory", "64MiB"],
                         capture_output=True, text=True, preexec_fn=lambda: ctypes.CDLL(None).prctl(65, 1, 0, 0, 0))
    assert run.returncode == 0, run.stderr
    return f"exposure {score} of 10"


def check_image(build):
    """The file system of the container image, made from the program of this machine."""
    directory = build / PACKAGES / "image"
    shutil.rmtree(directory, ignore_errors=True)
    output_of(ROOT / "packaging" / "make_root.sh", build / "quire", directory)
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < 80_000_000, f"the image has {size} bytes"
    tried = ""
    if output_of("id", "-u").strip() == "0":
        with proc_in(directory):
            inside = ["chroot", "--userspec=65532:65532", directory, "/usr/bin/quire"]
            version = output_of(*inside, "--version")
            assert version.startswith("quire "), version
            assert output_of(*inside, "generate", "--prompt", "Once", "--max-tokens", "8", "--kv-cache-memory", "64MiB").strip()
        tried = ", the program ran in it"
    return f"{size / 1e6:.1f} MB{tried}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build folder")
    parser.add_argument("--clean-root", type=pathlib.Path, metavar="DIR", help="directory for a Debian 12 system")
    parser.add_argument("--container", choices=["docker", "buildah"], help="the tool that builds the container")
    parser.add_argument("--own-base", action="store_true", help="make the base image with debootstrap")
    parser.add_argument("--ccache", type=pathlib.Path, metavar="DIR", help="a ccache for the build in the container, with buildah")
    args = parser.parse_args()
    build = args.build.resolve()
    checks = [("size", check_size), ("deb", check_deb), ("rpm", check_rpm), ("systemd unit", check_unit), ("image", check_image)]
    if args.clean_root:
        root = args.clean_root.resolve()
        checks += [("deb in a clean root", lambda build: package_roots.check_deb(build, root)),
                   ("rpm in a clean root", lambda build: package_roots.check_rpm(build, root)),
                   ("systemd service", lambda build: package_roots.check_service(build, root))]
    if args.container:
        checks.append(("container", lambda build: package_roots.check_container(build, args.container, args.own_base, args.ccache)))
    failed = False
    for name, check in checks:
        try:
            result = check(build)
            print(f"passed {name}: {result}" if result else f"skipped {name}: its tool is not installed")
        except (AssertionError, StopIteration, subprocess.CalledProcessError) as error:
            failed = True
            print(f"FAILED {name}: {error} {getattr(error, 'stderr', '') or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
