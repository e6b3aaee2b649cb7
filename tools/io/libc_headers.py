# SPDX-License-Identifier: Apache-2.0
"""Reads the functions that the C library exports, and the parameters that its headers declare."""

import json
import re
import subprocess

# Headers of the C library that can be included, and that no other header includes.
HEADERS = """aio.h aliases.h argp.h argz.h arpa/inet.h assert.h complex.h ctype.h dirent.h dlfcn.h envz.h err.h
errno.h error.h execinfo.h fcntl.h fenv.h fmtmsg.h fnmatch.h fstab.h fts.h ftw.h getopt.h glob.h grp.h gshadow.h
iconv.h ifaddrs.h inttypes.h langinfo.h libgen.h libintl.h limits.h link.h locale.h malloc.h math.h mcheck.h mntent.h
monetary.h mqueue.h net/if.h netdb.h nl_types.h obstack.h poll.h printf.h pthread.h pty.h pwd.h regex.h resolv.h
sched.h search.h semaphore.h setjmp.h shadow.h signal.h spawn.h stdio.h stdio_ext.h stdlib.h string.h strings.h
sys/acct.h sys/auxv.h sys/epoll.h sys/eventfd.h sys/fanotify.h sys/file.h sys/fsuid.h sys/inotify.h sys/io.h
sys/ioctl.h sys/ipc.h sys/klog.h sys/mman.h sys/mount.h sys/msg.h sys/personality.h sys/pidfd.h sys/prctl.h
sys/ptrace.h sys/quota.h sys/random.h sys/reboot.h sys/resource.h sys/select.h sys/sem.h sys/sendfile.h sys/shm.h
sys/signalfd.h sys/socket.h sys/stat.h sys/statfs.h sys/statvfs.h sys/swap.h sys/syscall.h sys/sysinfo.h sys/time.h
sys/timeb.h sys/timerfd.h sys/times.h sys/timex.h sys/types.h sys/uio.h sys/un.h sys/utsname.h sys/wait.h sys/xattr.h
syslog.h termios.h threads.h time.h ttyent.h uchar.h ucontext.h ulimit.h unistd.h utime.h utmp.h utmpx.h wchar.h
wctype.h wordexp.h""".split()

STREAM = re.compile(r"\b(FILE|DIR|FTS|FTS64) \*|struct _IO_FILE \*|struct __dirstream \*")
TEXT = re.compile(r"(const )?char \*( ?const)?( ?restrict)?$")
DESCRIPTOR_NAME = re.compile(r"_*(fd\w*|\w*fildes\d?|\w*fd|sockfd)$")
PATH_NAME = re.compile(r"_*(path|\w*file|file\w*|\w*path|dir|from|to|old|new|template|target)$")


def exports(library):
    """Returns the names of the functions that a shared library exports to programs."""
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    names = set()
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "TWi" and not words[2].endswith("@GLIBC_PRIVATE") \
                and not words[2].endswith("@@GLIBC_PRIVATE"):
            names.add(words[2].partition("@")[0])
    return names


def declared(clang):
    """Returns, for each function that a header declares, the list of its parameters' names and types."""
    source = "#define _GNU_SOURCE\n" + "".join(
        f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in HEADERS)
    tree = subprocess.run([clang, "-x", "c", "-", "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json"],
                          input=source.encode(), capture_output=True, check=True)
    found = {}
    for node in json.loads(tree.stdout)["inner"]:
        if node["kind"] == "FunctionDecl":
            parameters = [(p.get("name", ""), p["type"]["qualType"])
                          for p in node.get("inner", []) if p["kind"] == "ParmVarDecl"]
            for name in (node["name"], node.get("mangledName", node["name"])):
                found.setdefault(name, parameters)
    return found


def base_of(name):
    """Returns the name that a program writes for an export such as __read_chk or __isoc99_fscanf."""
    return re.sub(r"^(__isoc\d+_|_+)", "", re.sub(r"(_chk|_2)$", "", name))


def takes_file(name, functions):
    """True if a function takes a path, a descriptor, a FILE* or a DIR*, as far as headers tell."""
    parameters = functions.get(name) or functions.get(base_of(name)) or []
    return any(STREAM.search(kind) or (kind == "int" and DESCRIPTOR_NAME.match(word))
               or (TEXT.match(kind) and PATH_NAME.match(word)) for word, kind in parameters)
