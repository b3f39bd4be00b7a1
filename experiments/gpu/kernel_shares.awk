# Adds up what `ncu --csv --print-units base --metrics gpu__time_duration.sum` prints, one line per launch, by kind of kernel and
# by kernel; prints one JSON object. Kernels that only make initial values are left out.
BEGIN { FS = "\",\"" }
/^"ID","/ { for (i = 1; i <= NF; ++i) column[$i] = i; value = NF; next }
!value || NF != value || /EncodeJob|set_flag\(/ { next }
{
  name = $column["Kernel Name"]
  time = $value # the last column, "Metric Value", with the quote that ends the line
  gsub(/[,"]/, "", time)
  kind = "other"
  if (name ~ /nvjet|gemm|cutlass|xmma/) kind = "products"
  else if (name ~ /attend|(query|key)_gradient/) kind = "attention"
  else if (name ~ /read_groups|Decode/) kind = "decode"
  else if (name ~ /fold/) kind = "fold"
  else if (name ~ /update/) kind = "update"
  sub(/\(.*/, "", name)
  of[kind] += time; by[name] += time; ++launches[name]; all += time
}
END {
  if (all == 0) { print "kernel_shares: no kernel's time is in there" > "/dev/stderr"; exit 1 }
  printf "{\"kernel_milliseconds\": %.3f,\n \"shares\": {", all / 1e6
  for (kind in of) { printf "%s\"%s\": %.4f", comma, kind, of[kind] / all; comma = ", " }
  printf "},\n \"longest\": ["
  for (n = 0; n < 15; ++n) {
    longest = ""
    for (name in by) if (longest == "" || by[name] > by[longest]) longest = name
    if (longest == "") break
    printf "%s\n  {\"kernel\": \"%s\", \"share\": %.4f, \"launches\": %d}", n ? "," : "", longest, by[longest] / all, launches[longest]
    delete by[longest]
  }
  print "]\n}"
}
