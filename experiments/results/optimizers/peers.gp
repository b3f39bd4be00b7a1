set encoding utf8
$d0 << EOD
128 2.26151 2.23787 2.28515
EOD
$d1 << EOD
128 2.27021
128 2.23072
128 2.26299
128 2.27288
128 2.24024
128 2.292
EOD
$d2 << EOD
81.0303 2.26117 2.23811 2.28422
EOD
$d3 << EOD
81.0303 2.26752
81.0303 2.25244
81.0303 2.26346
81.0303 2.27259
81.0303 2.22312
81.0303 2.28788
EOD
$d4 << EOD
80.8151 2.25756 2.2352 2.27993
EOD
$d5 << EOD
80.8151 2.26418
80.8151 2.24152
80.8151 2.26444
80.8151 2.26902
80.8151 2.22352
80.8151 2.2827
EOD
$d6 << EOD
81.0303 2.28248 2.26657 2.29839
EOD
$d7 << EOD
81.0303 2.28017
81.0303 2.2764
81.0303 2.26877
81.0303 2.26755
81.0303 2.2987
81.0303 2.30329
EOD
$d8 << EOD
79.9723 2.26397 2.23403 2.2939
EOD
$d9 << EOD
79.9723 2.27931
79.9723 2.30501
79.9723 2.23496
79.9723 2.23037
79.9723 2.276
79.9723 2.25816
EOD
$d10 << EOD
73.4067 2.33026 2.29167 2.36886
EOD
$d11 << EOD
73.4067 2.35241
73.4067 2.32366
73.4067 2.31839
73.4067 2.30862
73.4067 2.287
73.4067 2.39148
EOD
$d12 << EOD
71.3164 2.3679 2.33155 2.40426
EOD
$d13 << EOD
71.3164 2.39413
71.3164 2.32464
71.3164 2.36711
71.3164 2.32671
71.3164 2.39645
71.3164 2.39839
EOD
$d14 << EOD
57.668 2.27072 2.25071 2.29073
EOD
$d15 << EOD
57.668 2.27529
57.668 2.26951
57.668 2.28499
57.668 2.26832
57.668 2.236
57.668 2.29022
EOD
$d16 << EOD
34.0601 2.25574 2.23402 2.27746
EOD
$d17 << EOD
34.0601 2.25112
34.0601 2.23991
34.0601 2.27162
34.0601 2.2609
34.0601 2.22723
34.0601 2.28363
EOD
$d18 << EOD
22.2561 2.21675 2.18605 2.24745
EOD
$d19 << EOD
22.2561 2.19516
22.2561 2.20145
22.2561 2.17834
22.2561 2.24991
22.2561 2.23018
22.2561 2.24546
EOD
$d20 << EOD
18.3215 2.27594 2.22915 2.32272
EOD
$d21 << EOD
18.3215 2.31493
18.3215 2.31502
18.3215 2.20458
18.3215 2.23923
18.3215 2.29103
18.3215 2.29084
EOD
$d22 << EOD
81.0303 -0.000340692 -0.0135177 0.0128363
EOD
$d23 << EOD
81.0303 -0.00268969
81.0303 0.021713
81.0303 0.000462328
81.0303 -0.000288582
81.0303 -0.0171173
81.0303 -0.00412389
EOD
$d24 << EOD
80.8151 -0.00394517 -0.0138176 0.00592728
EOD
$d25 << EOD
80.8151 -0.00603751
80.8151 0.0107949
80.8151 0.00144514
80.8151 -0.00385988
80.8151 -0.0167189
80.8151 -0.00929475
EOD
$d26 << EOD
81.0303 0.020972 -0.00538374 0.0473278
EOD
$d27 << EOD
81.0303 0.00995605
81.0303 0.0456759
81.0303 0.0057781
81.0303 -0.00533312
81.0303 0.0584619
81.0303 0.0112933
EOD
$d28 << EOD
79.9723 0.00245882 -0.0458198 0.0507375
EOD
$d29 << EOD
79.9723 0.00909382
79.9723 0.0742863
79.9723 -0.0280335
79.9723 -0.0425177
79.9723 0.0357591
79.9723 -0.0338351
EOD
$d30 << EOD
73.4067 0.068754 0.0411407 0.0963673
EOD
$d31 << EOD
73.4067 0.082202
73.4067 0.0929358
73.4067 0.0553943
73.4067 0.0357398
73.4067 0.0467681
73.4067 0.099484
EOD
$d32 << EOD
71.3164 0.106396 0.070923 0.14187
EOD
$d33 << EOD
71.3164 0.123918
71.3164 0.0939159
71.3164 0.104112
71.3164 0.0538274
71.3164 0.156211
71.3164 0.106394
EOD
$d34 << EOD
57.668 0.0092139 -0.00924502 0.0276728
EOD
$d35 << EOD
57.668 0.00507647
57.668 0.0387887
57.668 0.0220007
57.668 -0.00456115
57.668 -0.0042376
57.668 -0.00178371
EOD
$d36 << EOD
34.0601 -0.00577038 -0.0182419 0.00670109
EOD
$d37 << EOD
34.0601 -0.0190894
34.0601 0.00919209
34.0601 0.00862538
34.0601 -0.0119788
34.0601 -0.0130063
34.0601 -0.00836532
EOD
$d38 << EOD
22.2561 -0.0447583 -0.0759996 -0.0135171
EOD
$d39 << EOD
22.2561 -0.0750538
22.2561 -0.0292703
22.2561 -0.0846533
22.2561 -0.02297
22.2561 -0.0100607
22.2561 -0.0465419
EOD
$d40 << EOD
18.3215 0.0144281 -0.0430176 0.0718738
EOD
$d41 << EOD
18.3215 0.0447157
18.3215 0.0842944
18.3215 -0.0584173
18.3215 -0.0336526
18.3215 0.0507906
18.3215 -0.00116202
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'bnb8' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'bnb8-2048' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'ao-fp8' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'thu4' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle, $d10 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'ao4' noenhanced, $d11 using 1:2 with points pt 6 ps 0.4 lc '#56B4E9' notitle, $d12 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'solo2' noenhanced, $d13 using 1:2 with points pt 6 ps 0.4 lc '#000000' notitle, $d14 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'flash' noenhanced, $d15 using 1:2 with points pt 6 ps 0.4 lc '#8C8C00' notitle, $d16 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'lpmm-compact' noenhanced, $d17 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d18 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'lpmm-min' noenhanced, $d19 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d20 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#009E73' title 'lpmm-nano' noenhanced, $d21 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
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

plot $d22 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'bnb8' noenhanced, $d23 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d24 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'bnb8-2048' noenhanced, $d25 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d26 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'ao-fp8' noenhanced, $d27 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d28 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'thu4' noenhanced, $d29 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle, $d30 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'ao4' noenhanced, $d31 using 1:2 with points pt 6 ps 0.4 lc '#56B4E9' notitle, $d32 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'solo2' noenhanced, $d33 using 1:2 with points pt 6 ps 0.4 lc '#000000' notitle, $d34 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'flash' noenhanced, $d35 using 1:2 with points pt 6 ps 0.4 lc '#8C8C00' notitle, $d36 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'lpmm-compact' noenhanced, $d37 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d38 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'lpmm-min' noenhanced, $d39 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d40 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#009E73' title 'lpmm-nano' noenhanced, $d41 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
unset multiplot
set output
