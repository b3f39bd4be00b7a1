set encoding utf8
$d0 << EOD
128 2.26509 2.22979 2.30038
EOD
$d1 << EOD
128 2.25195
128 2.24259
128 2.35326
128 2.22067
128 2.24798
128 2.26972
128 2.23789
128 2.29665
EOD
$d2 << EOD
14.7248 2.28481 2.24368 2.32595
17.6758 2.241 2.22486 2.25713
EOD
$d3 << EOD
17.6758 2.2571
17.6758 2.23784
17.6758 2.24897
17.6758 2.2255
17.6758 2.23969
17.6758 2.23359
17.6758 2.21123
17.6758 2.27405
14.7248 2.27158
14.7248 2.29124
14.7248 2.25292
14.7248 2.27634
14.7248 2.37906
14.7248 2.26237
14.7248 2.21797
14.7248 2.32705
EOD
$d4 << EOD
19.3051 2.27216 2.24831 2.296
22.2561 2.24168 2.19795 2.28541
EOD
$d5 << EOD
22.2561 2.20467
22.2561 2.27615
22.2561 2.33919
22.2561 2.17541
22.2561 2.26194
22.2561 2.2522
22.2561 2.2262
22.2561 2.19769
19.3051 2.31262
19.3051 2.27788
19.3051 2.2704
19.3051 2.24805
19.3051 2.30655
19.3051 2.27892
19.3051 2.22872
19.3051 2.25414
EOD
$d6 << EOD
14.7248 0.019727 -0.036236 0.07569
17.6758 -0.0240919 -0.0539052 0.00572141
EOD
$d7 << EOD
17.6758 0.00515579
17.6758 -0.00475442
17.6758 -0.104294
17.6758 0.00483584
17.6758 -0.00828621
17.6758 -0.0361252
17.6758 -0.0266617
17.6758 -0.0226057
14.7248 0.0196304
14.7248 0.0486529
14.7248 -0.100348
14.7248 0.0556747
14.7248 0.131084
14.7248 -0.00735049
14.7248 -0.0199219
14.7248 0.0303944
EOD
$d8 << EOD
19.3051 0.00707119 -0.0347889 0.0489313
22.2561 -0.0234075 -0.0575243 0.0107093
EOD
$d9 << EOD
22.2561 -0.0472774
22.2561 0.0335654
22.2561 -0.014074
22.2561 -0.0452617
22.2561 0.0139614
22.2561 -0.0175189
22.2561 -0.0116916
22.2561 -0.0989627
19.3051 0.0606751
19.3051 0.0352863
19.3051 -0.0828644
19.3051 0.0273874
19.3051 0.0585685
19.3051 0.00920063
19.3051 -0.00917181
19.3051 -0.0425121
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'at_once' . '.' . type
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
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'none' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'soft4:block128:sr' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
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
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'none' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'soft4:block128:sr' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
unset multiplot
set output
