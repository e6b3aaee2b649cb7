#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes which libraries the files of an installation link, in SPDX's JSON format.

Run as: sbom.py <folder of an installation> <file>. The libraries and their versions are read from the files and from
Debian's list of packages. Code of other projects that is compiled in, from headers, is listed in COMPILED_IN.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ELF = b"\x7fELF"
# Debian's source packages, with their licences in SPDX's words.
LICENSES = {
    "cli11": "BSD-3-Clause", "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later", "fmtlib": "MIT",
    "fuse3": "LGPL-2.1-only", "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1", "glibc": "LGPL-2.1-or-later",
    "ncurses": "X11-distribute-modifications-variant", "openmpi": "BSD-3-Clause", "openssl": "Apache-2.0",
    "otf2": "BSD-3-Clause", "pmix": "BSD-3-Clause", "ucx": "BSD-3-Clause", "zlib": "Zlib", "zydis": "MIT",
    "nvidia-cuda-toolkit": "LicenseRef-NVIDIA-CUDA-EULA",
}
# Header-only code in the programs: Debian's package, and the file that contains the code.
COMPILED_IN = {"libcli11-dev": "bin/farcall"}
PATTERN_OF_NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")


def output_of(*command):
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else ""


def files_in(folder):
    """Yields the programs and libraries, without links and debug information."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".debug" not in path.parts:
            with path.open("rb") as file:
                if file.read(4) == ELF:
                    yield path


def needed_by(path):
    return PATTERN_OF_NEEDED.findall(output_of("readelf", "-d", path))


def paths_of_libraries():
    """Returns the file of each shared library that this system's loader knows."""
    found = re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)", output_of("/sbin/ldconfig", "-p"), re.M)
    return dict(reversed(found))


def debian_package(library, paths):
    """Returns the Debian package that has a library, with its version and source, or None."""
    path = os.path.realpath(paths.get(library, f"/lib/x86_64-linux-gnu/{library}"))
    for place in (path, path.removeprefix("/usr")):
        owner = output_of("dpkg-query", "-S", place).partition(":")[0]
        if owner:
            return described(owner)
    return None


def described(package):
    shown = output_of("dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package}\n", package).split()
    return tuple(shown[:3]) if len(shown) >= 3 else None


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def document_of(folder):
    """Returns the document. Raises SystemExit if a library is of no package."""
    version = re.search(r"^  VERSION (\S+)$", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.M).group(1)
    paths, packages, files, relations = paths_of_libraries(), {}, [], []
    own = {path.name for path in folder.rglob("*.so*")}

    def refer(file, package, kind):
        if package[2] not in LICENSES:
            raise SystemExit(f"sbom: {file} uses {package[0]} of {package[2]}, whose licence LICENSES lacks")
        packages[package] = identifier(f"package-{package[0]}")
        relations.append({"spdxElementId": identifier(f"file-{file}"), "relationshipType": kind,
                          "relatedSpdxElement": packages[package]})

    for path in files_in(folder):
        name = str(path.relative_to(folder))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append({"SPDXID": identifier(f"file-{name}"), "fileName": f"./{name}",
                      "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
                      "licenseConcluded": "Apache-2.0", "copyrightText": "Copyright The farcall authors"})
        for library in needed_by(path):
            if library in own or library.startswith("ld-linux"):
                continue
            package = debian_package(library, paths)
            if package is None:
                raise SystemExit(f"sbom: {name} links {library}, which no package of this system has")
            refer(name, package, "DYNAMIC_LINK")
        for package, file in COMPILED_IN.items():
            if file == name:
                refer(name, described(package), "CONTAINS")
    own_id = "SPDXRef-package-farcall"
    relations += [{"spdxElementId": own_id, "relationshipType": "CONTAINS", "relatedSpdxElement": file["SPDXID"]}
                  for file in files]
    relations.append({"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own_id})
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"farcall-{version}",
        "documentNamespace": f"https://farcall.example/sbom/farcall-{version}",
        "creationInfo": {"creators": ["Tool: farcall-sbom"], "created": created()},
        "packages": [
            {"SPDXID": own_id, "name": "farcall", "versionInfo": version, "downloadLocation": "NOASSERTION",
             "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "filesAnalyzed": False,
             "copyrightText": "Copyright The farcall authors"},
            *({"SPDXID": its_id, "name": name, "versionInfo": its_version, "downloadLocation": "NOASSERTION",
               "licenseConcluded": "NOASSERTION", "licenseDeclared": LICENSES[source], "filesAnalyzed": False,
               "copyrightText": "NOASSERTION", "supplier": "Organization: Debian"}
              for (name, its_version, source), its_id in sorted(packages.items()))],
        "files": files, "relationships": relations,
    }


def created():
    """Returns the time of the last commit, so that the same tree gives the same document."""
    shown = output_of("git", "-C", ROOT, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ").strip()
    return shown or "1970-01-01T00:00:00Z"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    document = document_of(pathlib.Path(sys.argv[1]).resolve())
    pathlib.Path(sys.argv[2]).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{len(document['files'])} files link {len(document['packages']) - 1} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
