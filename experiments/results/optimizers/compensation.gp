set encoding utf8
$d0 << EOD
104.515 2.10844 2.09625 2.12063
108.388 2.11137 2.08174 2.14101
112.261 2.11339 2.0923 2.13449
128 2.10867 2.07369 2.14364
EOD
$d1 << EOD
108.573 2.11747 2.10062 2.13431
EOD
$d2 << EOD
120.254 2.10846 2.08083 2.13608
EOD
$d3 << EOD
120.131 2.11304 2.08748 2.13861
EOD
$d4 << EOD
72.515 2.77449 2.41021 3.13876
76.3883 2.76262 2.40377 3.12148
80.2614 2.68044 2.36628 2.99459
96 2.70874 2.35853 3.05895
EOD
$d5 << EOD
76.5726 2.74096 2.40934 3.07259
EOD
$d6 << EOD
88.2536 2.72216 2.3318 3.11252
EOD
$d7 << EOD
88.1307 2.71274 2.35851 3.06698
EOD
$d8 << EOD
104.515 -0.000227257 -0.0249365 0.024482
108.388 0.00270521 -0.0104202 0.0158306
112.261 0.0047238 -0.0201547 0.0296023
EOD
$d9 << EOD
108.573 0.0087974 -0.0224271 0.0400219
EOD
$d10 << EOD
120.254 -0.000211559 -0.0136052 0.0131821
EOD
$d11 << EOD
120.131 0.00437585 -0.0143951 0.0231468
EOD
$d12 << EOD
72.515 0.0657509 -0.0333703 0.164872
76.3883 0.053887 -0.0613545 0.169128
80.2614 -0.0283008 -0.091691 0.0350894
EOD
$d13 << EOD
76.5726 0.0322279 -0.0216458 0.0861017
EOD
$d14 << EOD
88.2536 0.0134247 -0.0777664 0.104616
EOD
$d15 << EOD
88.1307 0.00400774 -0.0565166 0.0645321
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'compensation' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,960 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,960 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'validation loss: adamw' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'none' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:rn' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ulp8:rn' noenhanced
set origin 0.3333333333333333,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'validation loss: lion' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'none' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:rn' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ulp8:rn' noenhanced
set origin 0.6666666666666666,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32: adamw' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'none' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:rn' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ulp8:rn' noenhanced
set origin 0,0
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32: lion' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'none' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:rn' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ulp8:rn' noenhanced
unset multiplot
set output
