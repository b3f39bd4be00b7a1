set encoding utf8
$d0 << EOD
81.03 0.0052194 -0.00460866 0.0150475
EOD
$d1 << EOD
81.03 0.0112624
81.03 0.0185276
81.03 -0.0142139
81.03 -0.008991
81.03 0.0147547
81.03 -0.000212583
81.03 0.0112704
81.03 0.0093575
EOD
$d2 << EOD
77.0954 -0.00357185 -0.0207758 0.0136321
EOD
$d3 << EOD
77.0954 0.00190307
77.0954 0.030615
77.0954 -0.0232057
77.0954 -0.0189267
77.0954 0.000366813
77.0954 -0.0235951
77.0954 -0.0160698
77.0954 0.0203377
EOD
$d4 << EOD
75.1281 -0.00611619 -0.0173524 0.00512005
EOD
$d5 << EOD
75.1281 -0.0245948
75.1281 -0.00827233
75.1281 -0.00720371
75.1281 0.00406157
75.1281 0.00427259
75.1281 -0.027101
75.1281 0.00177639
75.1281 0.00813174
EOD
$d6 << EOD
73.1607 -0.043042 -0.0684598 -0.0176243
EOD
$d7 << EOD
73.1607 -0.0397903
73.1607 -0.0173252
73.1607 -0.0192799
73.1607 -0.0498016
73.1607 0.00186638
73.1607 -0.0679568
73.1607 -0.0623307
73.1607 -0.0897182
EOD
$d8 << EOD
71.1934 -0.221545 -0.253947 -0.189143
EOD
$d9 << EOD
71.1934 -0.238161
71.1934 -0.180911
71.1934 -0.250873
71.1934 -0.178994
71.1934 -0.175828
71.1934 -0.261942
71.1934 -0.217437
71.1934 -0.268214
EOD
$d10 << EOD
81.03 0.0130384 -0.00299716 0.029074
EOD
$d11 << EOD
81.03 0.00115704
81.03 0.0443254
81.03 0.034256
81.03 0.00141346
81.03 -0.0095353
81.03 -0.00430472
81.03 0.0184882
81.03 0.0185074
EOD
$d12 << EOD
77.0954 0.0083148 -0.0129126 0.0295422
EOD
$d13 << EOD
77.0954 0.00779288
77.0954 0.0140475
77.0954 0.0185664
77.0954 -0.0037113
77.0954 0.0562218
77.0954 0.0177369
77.0954 -0.02208
77.0954 -0.0220558
EOD
$d14 << EOD
75.1281 0.00326709 -0.0219037 0.0284379
EOD
$d15 << EOD
75.1281 0.00739815
75.1281 -0.0105003
75.1281 0.0262431
75.1281 -0.0471991
75.1281 0.0160263
75.1281 0.0503398
75.1281 0.00653692
75.1281 -0.0227081
EOD
$d16 << EOD
73.1607 -0.00149463 -0.0331206 0.0301314
EOD
$d17 << EOD
73.1607 0.000185747
73.1607 0.0441276
73.1607 -0.00766763
73.1607 -0.00137476
73.1607 -0.0245943
73.1607 0.050393
73.1607 -0.00322327
73.1607 -0.0698034
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'adam_bits' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 560,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 560,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 1,1
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'soft8:block128:sr' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'soft6:block128:sr' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'soft5:block128:sr' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'soft4:block128:sr' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'soft3:block128:sr' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#56B4E9' notitle, $d10 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'de8:block128:rn' noenhanced, $d11 using 1:2 with points pt 6 ps 0.4 lc '#000000' notitle, $d12 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'de6:block128:rn' noenhanced, $d13 using 1:2 with points pt 6 ps 0.4 lc '#8C8C00' notitle, $d14 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'de5:block128:rn' noenhanced, $d15 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d16 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'de4:block128:rn' noenhanced, $d17 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
unset multiplot
set output
