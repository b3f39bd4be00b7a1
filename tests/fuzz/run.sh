#!/usr/bin/env bash
# Builds the fuzz targets and runs each of them, as many at once as there are processors.
# usage: bash tests/fuzz/run.sh [EXECUTIONS [TARGET...]]     10^6 of every target without them
# A target's findings lie in build-fuzz/findings/TARGET-*: `build-fuzz/fuzz_TARGET FILE` shows one again.
# LPMM_FUZZ_BUILD names another build folder.
set -u -o pipefail
cd "$(dirname "$0")/../.."
build=${LPMM_FUZZ_BUILD:-build-fuzz} executions=${1:-1000000}
[ $# -eq 0 ] || shift
targets=${*:-$(basename -s .cpp tests/fuzz/*.cpp)}

# seeds TARGET FOLDER: inputs that the reader takes, so that mutations begin behind the first check.
seeds() {
  case $1 in
    spec)
      local i=0 spec
      for spec in fp32 bf16:sr int7:block128:qr:sticky soft4:block64 ude8:block4096:rn:moving de0-8 lin0-4 sqrt0-3; do
        printf %s "$spec" >"$2/$((i++))"
      done
      ;;
    config) find experiments -name '*.toml' -not -path '*/results/*' -exec cp {} "$2" \; ;;
    npy)
      for kind in f2 f4 f8; do
        printf '\x93NUMPY\x01\x00\x36\x00%-53s\n%0100d' "{'descr': '<$kind', 'fortran_order': False, 'shape': (3, 4)}" 0 |
          head -c $((64 + 12 * ${kind#f})) >"$2/$kind"
      done
      ;;
    safetensors)
      cp tests/golden/checkpoint_v1/model.safetensors "$2/checkpoint"
      printf '\x40\0\0\0\0\0\0\0%-64s\1\2\3\4\5\6\7\10' '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' >"$2/small"
      ;;
    checkpoint)
      for folder in tests/golden/checkpoint_*; do
        { cat "$folder/state.json" && printf '\0' && cat "$folder/model.safetensors"; } >"$2/$(basename "$folder")"
      done
      ;;
    tokenizer)
      printf '%s\0%s' '{"a": 0, "b": 1, "ab": 2, "abb": 3, "\u0120": 4, "<|endoftext|>": 5}' \
        $'#version: 0.2\na b\nab b\n' >"$2/gpt2"
      printf 'a text, \303\251 and 12 words' >"$2/text"
      ;;
    tokenizer_json)
      local i=0 part
      for part in '"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"}' \
        '"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+|a(?!b)"},"behavior":"MergedWithNext"}' \
        '"normalizer":{"type":"NFKC"},"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"}]}' \
        '"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Metaspace"}]}' \
        '"post_processor":{"type":"BertProcessing","sep":["b",1],"cls":["a",0]}'; do
        printf '{%s,"added_tokens":[{"id":0,"content":"a","lstrip":true}],"model":%s}\0a ab\303\251\nb 12' "$part" \
          '{"type":"BPE","unk_token":"a","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}' >"$2/$((i++))"
      done
      printf '{"model":{"type":"WordPiece","unk_token":"a","vocab":{"a":0,"##b":1}}}\0ab b' >"$2/pieces"
      ;;
    chat_template)
      python3 - "$2" <<'END'
import json, pathlib, sys
for at, case in enumerate(json.load(open("tests/golden/chat_templates.json"))["cases"]):
    pathlib.Path(sys.argv[1], str(at)).write_text(case["template"] + '\0{"messages": [{"role": "user"}], "n": 3, "items": [1, 2]}')
END
      ;;
    marian_tokenizer)
      local i=0 part
      { cat tests/golden/marian_text/vocab.json && printf '\0' && cat tests/golden/marian_text/tokenizer_config.json &&
        printf '\0>>deu<< a man</s> is'; } >"$2/whole"
      for part in '"bos_token":{"content":"a"},"clean_up_tokenization_spaces":true' '"extra_special_tokens":["a"]' \
        '"added_tokens_decoder":{"4":{"content":"b","lstrip":true,"rstrip":true}}'; do
        printf '{"</s>":0,"<unk>":1,"<pad>":2,"a":3}\0{%s}\0a b </s> .\n a' "$part" >"$2/$((i++))"
      done
      ;;
    tokens)
      printf 'lpmmtok\n\1\0\0\0\20\0\0\0\0\1\0\0\0\0\0\0\2\0\0\0\0\0\0\0{"kind":"bytes"}%16s' '' | tr ' ' '\0' >"$2/bytes"
      printf 'a\0b\0' >>"$2/bytes"
      ;;
    log) printf '{"type":"config","config":"a"}\n{"type":"step","step":1,"loss":2.5}\n{"type":"st' >"$2/log" ;;
    archive)
      mkdir -p "$2.files/set"
      printf 0123456789 >"$2.files/set/a.bin"
      : >"$2.files/set/b.bin"
      tar -C "$2.files" -czf "$2/gzip" set
      tar -C "$2.files" --format ustar -cf "$2/plain" set
      ;;
    http)
      printf 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello' >"$2/whole"
      printf 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n' >"$2/chunks"
      printf 'HTTP/1.1 302 Found\r\nLocation: http://user:word@other.test/file\r\nContent-Length: 0\r\n\r\n' >"$2/elsewhere"
      printf 'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\nhello' >"$2/part"
      ;;
    gguf)
      python3 - "$2" <<'END'
import pathlib, struct, sys
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
key = lambda name, kind, form, value: text(name) + struct.pack("<I" + form, kind, value)
keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        key("llama.block_count", 4, "I", 1), key("llama.context_length", 4, "I", 8), key("llama.embedding_length", 4, "I", 32),
        key("llama.feed_forward_length", 4, "I", 32), key("llama.attention.head_count", 4, "I", 2),
        key("llama.attention.layer_norm_rms_epsilon", 6, "f", 1e-5),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + text("a") + text("b") + text("ab"),
        text("tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 1) + text("a b")]
shapes = {"token_embd.weight": (32, 3), "output_norm.weight": (32,), "blk.0.attn_norm.weight": (32,), "blk.0.ffn_norm.weight": (32,),
          **{f"blk.0.{n}.weight": (32, 32) for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}}
for kind, bytes_of_32 in ((0, 128), (1, 64), (2, 18), (8, 34)):
    entries, data = b"", b""
    for name, shape in shapes.items():
        of = 0 if len(shape) == 1 else kind
        entries += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, of, len(data))
        size = (128 if of == 0 else bytes_of_32) * (1 if len(shape) == 1 else shape[1])
        data += bytes(size + -size % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + entries
    pathlib.Path(sys.argv[1], str(kind)).write_bytes(head + bytes(-len(head) % 32) + data)
END
      ;;
    conversations)
      local i=0 row
      for row in '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}],"weight":0}]}' \
        '{"conversations":[{"from":"human","value":"a"},{"from":"function_call","value":"{\"name\":\"f\",\"arguments\":{}}"}],"tools":"[]"}' \
        '{"instruction":"a","input":"","output":"b","system":"c"}' '{"prompt":"a","completion":"b"}' '[{"text":"a"}]'; do
        printf '%s\n' "$row" >"$2/$((i++))"
      done
      printf 'instruction,output\n"a ""b""\nc",d\n' >"$2/csv"
      ;;
    tables)
      local i=0 row
      for row in '0a,b,c\n"x ""y""\nz",p,1\nu,q,2\nv,p,3\n' '1a\tb\nx y\tp;q\nz\tq\n' '4text;label\nx;0.5\ny;1\nz' \
        '0{"sentence":"a b","label":["p","q"]}\n{"sentence":"c","label":[]}\n' '2{"tokens":["a","b"],"ner_tags":["O","B-X"]}\n' \
        '4[{"sentence1":"a","sentence2":"b","score":1.5},{"sentence1":"c","sentence2":null,"score":2}]' \
        '0a B-X\nb O\n\n-DOCSTART- O\n\nc\tI-X\n'; do
        printf "$row" >"$2/$((i++))"
      done
      ;;
    request)
      printf '0{"model":"tiny","prompt":["a",[97,98]],"max_tokens":3,"logprobs":2,"echo":true,"stop":["b"],"stream":false}' >"$2/text"
      printf '1{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}],%s}' \
        '"temperature":0.5,"top_p":0.9,"seed":1,"stream":true,"stream_options":{"include_usage":true}' >"$2/chat"
      ;;
    images) head -c 6146 /dev/zero >"$2/two" ;;
    idx)
      printf '\0\0\10\1\0\0\0\4\0\1\2\1\0\0\10\3\0\0\0\4\0\0\0\1\0\0\0\2abcdefgh' >"$2/four"
      printf '\0\0\10\1\0\0\0\4\0\1\2\1' >"$2/packed"
      printf '\0\0\10\3\0\0\0\4\0\0\0\1\0\0\0\2abcdefgh' | gzip -n >>"$2/packed"
      ;;
    image_file)
      { printf 'lpmmimg\n\1\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0\4\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0'
        printf '\0\0\200\77\0\0\0\0\0\0\0\0\0\0\200\77\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a\nb\n'
        printf '%044d\0\0\1\0%060dwxyz' 0 0 | tr 0 '\0'; } >"$2/two"
      ;;
    *)
      echo "no seeds for the target $1"
      exit 1
      ;;
  esac
}

# one_target NAME: says `ok NAME` and the speed, or what was found.
one_target() {
  local corpus=$FUZZ_FOLDER/$1 log=$build/findings/$1.log
  mkdir -p "$corpus"
  (seeds "$1" "$corpus") || return 1
  # HTTP waits for a network that answers; the rest must be fast.
  if "$build/fuzz_$1" -runs="$executions" -seed=1 -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$1-" "$corpus" >"$log" 2>&1; then
    printf 'ok %-12s %9d executions, %6d per second, %5d branches, 0 findings\n' "$1" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")" \
      "$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$log" | tail -1)"
  else
    printf 'FINDING %s: %s\n' "$1" "$(grep -E 'ERROR|SUMMARY|terminate|runtime error' "$log" | head -2 | tr '\n' ' ')"
  fi
}

if [ "$executions" = one ]; then
  executions=$2
  one_target "$1"
  exit
fi
if [ -z "${LPMM_FUZZ_BUILD:-}" ]; then
  bash experiments/packages.sh clang || exit 1
  cmake --preset fuzz -G Ninja >/dev/null && cmake --build --preset fuzz -- --quiet || exit 1
fi
FUZZ_FOLDER=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "$build")" fuzz.XXXXXX)
export FUZZ_FOLDER TMPDIR=$FUZZ_FOLDER
trap 'rm -rf "$FUZZ_FOLDER"' EXIT
mkdir -p "$build/findings"
results=$(xargs -P "$(nproc)" -I{} bash tests/fuzz/run.sh one {} "$executions" <<<"$(tr ' ' '\n' <<<"$targets")" 2>&1 |
  tee /dev/stderr)
[ "$(grep -c '^ok ' <<<"$results")" -eq "$(wc -w <<<"$targets")" ]
