set encoding utf8
$d0 << EOD
128 2.26151 2.23787 2.28515
EOD
$d1 << EOD
81.0303 2.26117 2.23811 2.28422
EOD
$d2 << EOD
80.8151 2.25756 2.2352 2.27993
EOD
$d3 << EOD
81.0303 2.28248 2.26657 2.29839
EOD
$d4 << EOD
79.9723 2.26397 2.23403 2.2939
EOD
$d5 << EOD
73.4067 2.33026 2.29167 2.36886
EOD
$d6 << EOD
71.3164 2.3679 2.33155 2.40426
EOD
$d7 << EOD
57.668 2.27072 2.25071 2.29073
EOD
$d8 << EOD
34.0601 2.25574 2.23402 2.27746
EOD
$d9 << EOD
22.2561 2.21675 2.18605 2.24745
EOD
$d10 << EOD
18.3215 2.27594 2.22915 2.32272
EOD
$d11 << EOD
81.0303 -0.000340692 -0.0135177 0.0128363
EOD
$d12 << EOD
80.8151 -0.00394517 -0.0138176 0.00592728
EOD
$d13 << EOD
81.0303 0.020972 -0.00538374 0.0473278
EOD
$d14 << EOD
79.9723 0.00245882 -0.0458198 0.0507375
EOD
$d15 << EOD
73.4067 0.068754 0.0411407 0.0963673
EOD
$d16 << EOD
71.3164 0.106396 0.070923 0.14187
EOD
$d17 << EOD
57.668 0.0092139 -0.00924502 0.0276728
EOD
$d18 << EOD
34.0601 -0.00577038 -0.0182419 0.00670109
EOD
$d19 << EOD
22.2561 -0.0447583 -0.0759996 -0.0135171
EOD
$d20 << EOD
18.3215 0.0144281 -0.0430176 0.0718738
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'peers' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1120,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1120,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'validation loss' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 6 samplen 2 width 1
set bmargin 10

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'bnb8' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'bnb8-2048' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ao-fp8' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'thu4' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'ao4' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'solo2' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'flash' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'lpmm-compact' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 4 lc '#D55E00' title 'lpmm-min' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 4 lc '#009E73' title 'lpmm-nano' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9

plot $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'bnb8' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'bnb8-2048' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ao-fp8' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'thu4' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'ao4' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'solo2' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'flash' noenhanced, $d18 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'lpmm-compact' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 4 lc '#D55E00' title 'lpmm-min' noenhanced, $d20 using 1:2:3:4 with yerrorlines pt 4 lc '#009E73' title 'lpmm-nano' noenhanced
unset multiplot
set output
