#!/usr/bin/env python3
"""Applies the renames of docs/decisions/0011-renames.txt to a git tree, one commit per term.

    rename.py [--tree DIR] [--list FILE] [--check] [--only SUBSTRING] [--no-format] [--no-commit]

--check changes nothing: it says what each line would hit, what is gone, and what collides.
"""
import argparse, fnmatch, os, re, shlex, subprocess, sys

CODE = ('.hpp', '.cpp', '.cu', '.cuh', '.h', '.c', '.in', '.inc')
TEXT = ('.txt', '.cmake', '.md', '.json', '.yml', '.sh', '.py', '.i')
SKIP = ('docs/decisions/0011', 'CHANGELOG.md', 'examples/data/', 'LICENSE')
LEX = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<d>[^(]*)\(.*?\)(?P=d)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\')'
    r'|(?P<include>^[ \t]*#[ \t]*include[^\n]*)|(?P<word>[A-Za-z_]\w*)', re.S | re.M)


def git(*a, check=True):
    return subprocess.run(['git', *a], check=check, text=True, stdout=subprocess.PIPE).stdout


def files():
    out = []
    for f in git('ls-files').splitlines():
        if any(f.startswith(s) for s in SKIP) or not os.path.isfile(f) or os.path.islink(f):
            continue
        if f.endswith(CODE + TEXT) or f in ('run', '.ci/run') or f.endswith('CMakeLists.txt'):
            out.append(f)
    return out


def is_code(f):
    return f.endswith(CODE) and not f.endswith('.in') or f.endswith(('.cpp.in', '.hpp.in'))


class Line:
    def __init__(self, text):
        body, _, scope = text.partition(' : ')
        parts = shlex.split(body)
        self.merge = parts[-1] == '!'
        if self.merge:
            parts.pop()
        if scope.rstrip().endswith('!'):
            self.merge, scope = True, scope.rstrip()[:-1]
        self.kind, self.old, self.new = parts
        self.scope = scope.split()
        self.text, self.hits = text, 0

    def covers(self, f):
        return not self.scope or any(fnmatch.fnmatch(f, s) for s in self.scope)


def terms(path):
    out = []
    for raw in open(path):
        line = raw.strip()
        if not line or line.startswith('#'):
            continue
        if line.startswith('term '):
            out.append((line[5:], []))
        else:
            out[-1][1].append(Line(line))
    return out


def rename_word(w, lines):
    """An identifier after the first line that concerns it; `id` before `part`."""
    for tail in ('', '_'):
        for l in lines:
            if (l.kind == 'id' or l.kind == 'word' and not tail) and w == l.old + tail and not (tail and l.old.endswith('_')):
                l.hits += 1
                return l.new + tail
    parts = [l for l in lines if l.kind == 'part']
    if parts:
        pieces = re.split('(_)', w)
        for i, p in enumerate(pieces):
            for l in parts:
                if p == l.old:
                    pieces[i] = l.new
                    l.hits += 1
                    break
                if p == l.old.upper() and p != l.old:
                    pieces[i] = l.new.upper()
                    l.hits += 1
                    break
        return ''.join(pieces)
    return w


def prose(text, lines):
    for l in lines:
        if l.kind != 'prose':
            continue

        def sub(m):
            l.hits += 1
            word, article = l.new, m.group('a')
            if m.group('w')[0].isupper():
                word = word[0].upper() + word[1:]
            if article:
                vowel = word[0].lower() in 'aeiou' or word.startswith('RMA')
                right = 'an' if vowel else 'a'
                article = right.capitalize() if article[0].isupper() else right
            return (article + m.group('s') if article else '') + word

        cap = l.old[0].upper() + l.old[1:]
        text = re.sub(r'(?:\b(?P<a>[Aa]n?)(?P<s>\s+(?:/// |// )?))?(?<![\w/.-])(?P<w>%s|%s)(?![\w/]|\.[hc]pp)' %
                      (re.escape(l.old), re.escape(cap)), sub, text)
    return text


def compound(text, lines, plain=False):
    """Identifiers in text that is not code: names with an underscore, in backticks, or called."""
    def sub(m):
        w = m.group()
        before, after = text[m.start() - 1:m.start()], text[m.end():m.end() + 1]
        sure = '_' in w.strip('_') or w.endswith('_') or before == '`' or after in ('`', '(') or plain
        if before in ('/', '-') and not w.count('_'):
            return w
        for l in lines:
            if l.kind == 'call' and w == l.old and after == '(' and before not in ('.', '>', ':'):
                return l.new
        return rename_word(w, lines) if sure else w
    return re.sub(r'[A-Za-z_]\w*', sub, text)


def text_lines(text, lines):
    for l in lines:
        if l.kind in ('text', 'qual'):
            if l.kind == 'text':
                n = text.count(l.old)
                text = text.replace(l.old, l.new)
            else:
                text, n = re.subn(r'(?<![\w:])%s(?!\w)' % re.escape(l.old), l.new, text)
            l.hits += n
    return text


def paths(text, moves, f):
    """Includes, CMake lists, documents: full paths, and base names in the folder's own lists."""
    for old, new in moves:
        text = text.replace(old, new)
        for strip in ('farcall/', 'farcall/transport/', 'tests/'):
            if old.startswith(strip) and f.startswith(strip) and f.endswith('CMakeLists.txt'):
                o, n = old[len(strip):], new[len(strip):]
                text = re.sub(r'(?<![\w/])%s(?![\w])' % re.escape(o), n, text)
        folder = os.path.dirname(old)
        if os.path.dirname(f) == folder or f.startswith('docs/') and old.endswith(CODE):
            o, n = os.path.basename(old), os.path.basename(new)
            text = re.sub(r'(?<![\w/])%s(?![\w/])' % re.escape(o), n, text)
    return text


def rewrite(f, text, lines, moves):
    here = [l for l in lines if l.covers(f)]
    text = text_lines(text, here)
    if is_code(f):
        def sub(m):
            kind = m.lastgroup if m.lastgroup != 'd' else 'raw'
            t = m.group()
            if kind == 'comment':
                return prose(compound(t, here), here)
            if kind == 'include':
                return paths(t, moves, f)
            if kind in ('string', 'raw'):
                return compound(t, here)  # messages name identifiers with underscores only
            if kind == 'char':
                return t
            for l in here:
                if l.kind == 'call' and t == l.old:
                    after = text[m.end():m.end() + 1]
                    before = text[text.rfind('\n', 0, m.start()) + 1:m.start()].rstrip()
                    declared = before[-1:].isalnum() and not before.endswith(('void', 'return'))
                    if after == '(' and not declared and not before.endswith(('.', '->')):
                        l.hits += 1
                        return l.new
            return rename_word(t, here)
        new = LEX.sub(sub, text)
        return paths(new, moves, f)
    new = paths(text, moves, f)
    if f.endswith('.md'):
        return prose(compound(new, here), here)
    return compound(new, here)


def words_of(fs):
    seen = set()
    for f in fs:
        if is_code(f):
            for m in LEX.finditer(open(f, errors='replace').read()):
                if m.lastgroup == 'word':
                    seen.add(m.group())
    return seen


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--tree', default='.')
    ap.add_argument('--list', default='docs/decisions/0011-renames.txt')
    ap.add_argument('--check', action='store_true')
    ap.add_argument('--only', default='')
    ap.add_argument('--no-format', action='store_true')
    ap.add_argument('--no-commit', action='store_true')
    o = ap.parse_args()
    os.chdir(o.tree)
    if not o.check and git('status', '--porcelain', '--untracked-files=no').strip():
        sys.exit('the tree has changes that are not committed')
    for subject, lines in terms(o.list):
        if o.only not in subject:
            continue
        print('==', subject)
        for l in lines:
            l.hits = 0
        fs = files()
        known = words_of(fs)
        for l in lines:
            if l.kind in ('id', 'word') and not l.merge and (l.new in known or l.new + '_' in known):
                where = [f for f in fs if is_code(f) and l.covers(f) and
                         re.search(r'\b%s_?\b' % re.escape(l.new), open(f, errors='replace').read())]
                if where:
                    print('  COLLISION?', l.new, 'is in', *where[:6])
        moves = []
        tracked = set(git('ls-files').splitlines())
        for l in lines:
            if l.kind == 'file' and (l.old in tracked or any(t.startswith(l.old + '/') for t in tracked)):
                moves.append((l.old, l.new))
                l.hits = 1
        changed = []
        for f in fs:
            text = open(f, encoding='utf-8', errors='surrogateescape').read()
            new = rewrite(f, text, lines, moves)
            if new != text:
                changed.append(f)
                if not o.check:
                    open(f, 'w', encoding='utf-8', errors='surrogateescape').write(new)
        for l in lines:
            if not l.hits:
                print('  gone:', l.text)
        print('  %d files, %d hits' % (len(changed), sum(l.hits for l in lines)))
        if o.check:
            continue
        for old, new in moves:
            os.makedirs(os.path.dirname(new), exist_ok=True)
            git('mv', old, new)
            changed = [new + c[len(old):] if c == old or c.startswith(old + '/') else c for c in changed]
        if not o.no_format:
            code = [c for c in changed if is_code(c) and not c.endswith('.in')]
            fmt = next((p for p in ('clang-format-19', 'clang-format')
                        if subprocess.run(['which', p], stdout=subprocess.DEVNULL).returncode == 0), None)
            if fmt and code:
                subprocess.run([fmt, '-i', *code], check=True)
        if not o.no_commit and git('status', '--porcelain', '--untracked-files=no').strip():
            git('add', '-u')
            git('add', *[n for _, n in moves]) if moves else None
            git('commit', '-q', '-m', subject, '-m', 'See docs/decisions/0011-words.md.')


if __name__ == '__main__':
    main()
