#!/usr/bin/env python3
"""Makes the text that queue.sh trains GPT-2 on: source code and manuals of Linux, from Debian's package linux-source-6.1.

FOLDER gets linux.tokens.xz, tokens of GPT-2's tokenizer; linux.json, which says of what package they are and how many; and
gpt2-bpe, the tokenizer's files, copied from LPMM_DATA or downloaded. The same package always gives the same tokens.
Files are taken in the order of the SHA-256 of their names; the last ones are held out, each as a whole.
"""
import argparse
import hashlib
import heapq
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

PACKAGE = "linux-source-6.1"
ENDINGS = (".c", ".h", ".rst", ".txt")
TEXT_BYTES = 216_000_000  # 101 million tokens
HELD_OUT_BYTES = 2_160_000
LARGEST_FILE = 1_000_000  # larger ones are tables
LARGEST_PACKED = 50_000_000


def files_of(package):
    """Names and bytes of the text files in the package's archive of sources, but for headers that list registers."""
    unpacked = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    with unpacked, tarfile.open(fileobj=unpacked.stdout, mode="r|") as outer:
        for archive in outer:
            if not archive.name.endswith(f"{PACKAGE}.tar.xz"):
                continue
            with tarfile.open(fileobj=outer.extractfile(archive), mode="r|xz") as sources:
                for member in sources:
                    if not member.isfile() or not member.name.endswith(ENDINGS) or "/asic_reg/" in member.name:
                        continue
                    if member.size <= LARGEST_FILE:
                        yield member.name, sources.extractfile(member).read()


def chosen(files):
    """The texts whose names have the smallest hashes, in their order, as far as TEXT_BYTES; each begins with its name."""
    heap, total = [], 0
    for name, content in files:
        try:
            content.decode()
        except UnicodeDecodeError:
            continue
        text = b"==> %s <==\n%s\n" % (name.encode(), content)
        rank = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
        heapq.heappush(heap, (-rank, text))
        total += len(text)
        while total - len(heap[0][1]) >= TEXT_BYTES:
            total -= len(heapq.heappop(heap)[1])
    return [text for _, text in sorted(heap, reverse=True)]


def tokenize(lpmm, texts, path, vocabulary):
    """Writes the texts' token file and returns the number of tokens."""
    plain = path.with_suffix(".txt")
    plain.write_bytes(b"".join(texts))
    command = [lpmm, "data", "tokenize", "--tokenizer", "gpt2", "--vocab", vocabulary, plain, path, "--json"]
    answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    plain.unlink()
    return answer["tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--package", help="the .deb, where apt-get is not to download it")
    parser.add_argument("--lpmm", default="build/lpmm", help="the program (%(default)s)")
    arguments = parser.parse_args()
    folder, lpmm = arguments.folder, arguments.lpmm
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "gpt2-bpe"
    own = pathlib.Path(os.environ.get("LPMM_DATA", pathlib.Path.home() / ".cache/lpmm")) / "gpt2-bpe"
    if not vocabulary.exists() and own.exists():
        shutil.copytree(own, vocabulary)
    elif not vocabulary.exists():
        subprocess.run([lpmm, "data", "get", "gpt2-bpe", "--to", folder], check=True)

    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = pathlib.Path(name)
        package = arguments.package
        if package is None:
            subprocess.run(["apt-get", "download", PACKAGE], cwd=scratch, check=True)
            package = next(scratch.glob("*.deb"))
        version = subprocess.run(["dpkg-deb", "-f", package, "Version"], stdout=subprocess.PIPE, check=True, text=True)
        with open(package, "rb") as deb:
            checksum = hashlib.file_digest(deb, "sha256").hexdigest()

        texts = chosen(files_of(package))
        first_held_out, held_out_bytes = len(texts), 0
        while held_out_bytes < HELD_OUT_BYTES:
            first_held_out -= 1
            held_out_bytes += len(texts[first_held_out])
        held_out = tokenize(lpmm, texts[first_held_out:], scratch / "held_out.tokens", vocabulary)
        tokens = tokenize(lpmm, texts, scratch / "linux.tokens", vocabulary)

        packed = scratch / "linux.tokens.xz"
        with open(scratch / "linux.tokens", "rb") as plain, lzma.open(packed, "wb", preset=6) as out:
            shutil.copyfileobj(plain, out)
        size = packed.stat().st_size
        if size > LARGEST_PACKED:
            raise SystemExit(f"make_text.py: {size} bytes packed, at most {LARGEST_PACKED}: take fewer TEXT_BYTES")
        # Training reads the first of round(tokens * (1 - share)) tokens: with these digits exactly to a file's end.
        facts = {
            "package": f"{PACKAGE} {version.stdout.strip()}",
            "package_sha256": checksum,
            "files": len(texts),
            "tokens": tokens,
            "held_out_files": len(texts) - first_held_out,
            "held_out_tokens": held_out,
            "validation_share": round(held_out / tokens, 12),
            "packed_sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
        }
        packed.replace(folder / packed.name)
    (folder / "linux.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
