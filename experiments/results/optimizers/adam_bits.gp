set encoding utf8
$d0 << EOD
81.03 0.0052194 -0.00460866 0.0150475
EOD
$d1 << EOD
77.0954 -0.00357185 -0.0207758 0.0136321
EOD
$d2 << EOD
75.1281 -0.00611619 -0.0173524 0.00512005
EOD
$d3 << EOD
73.1607 -0.043042 -0.0684598 -0.0176243
EOD
$d4 << EOD
71.1934 -0.221545 -0.253947 -0.189143
EOD
$d5 << EOD
81.03 0.0130384 -0.00299716 0.029074
EOD
$d6 << EOD
77.0954 0.0083148 -0.0129126 0.0295422
EOD
$d7 << EOD
75.1281 0.00326709 -0.0219037 0.0284379
EOD
$d8 << EOD
73.1607 -0.00149463 -0.0331206 0.0301314
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
set xtics auto norotate
set ytics auto
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'soft8:block128:sr' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft6:block128:sr' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'soft5:block128:sr' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'soft4:block128:sr' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'soft3:block128:sr' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'de8:block128:rn' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'de6:block128:rn' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'de5:block128:rn' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 4 lc '#D55E00' title 'de4:block128:rn' noenhanced
unset multiplot
set output
