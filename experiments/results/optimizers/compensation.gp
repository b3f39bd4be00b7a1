set encoding utf8
$d0 << EOD
104.515 2.10844 2.09625 2.12063
108.388 2.11137 2.08174 2.14101
112.261 2.11339 2.0923 2.13449
128 2.10867 2.07369 2.14364
EOD
$d1 << EOD
128 2.13003
128 2.06631
128 2.08713
128 2.10687
128 2.16128
128 2.10042
104.515 2.12192
104.515 2.09107
104.515 2.10344
104.515 2.1033
104.515 2.12
104.515 2.11093
108.388 2.1171
108.388 2.07079
108.388 2.11199
108.388 2.11004
108.388 2.15807
108.388 2.10025
112.261 2.11028
112.261 2.08818
112.261 2.12929
112.261 2.10612
112.261 2.14416
112.261 2.10232
EOD
$d2 << EOD
108.573 2.11747 2.10062 2.13431
EOD
$d3 << EOD
108.573 2.12411
108.573 2.11058
108.573 2.09995
108.573 2.10167
108.573 2.12806
108.573 2.14043
EOD
$d4 << EOD
120.254 2.10846 2.08083 2.13608
EOD
$d5 << EOD
120.254 2.10788
120.254 2.0821
120.254 2.09489
120.254 2.10875
120.254 2.15837
120.254 2.09875
EOD
$d6 << EOD
120.131 2.11304 2.08748 2.13861
EOD
$d7 << EOD
120.131 2.11994
120.131 2.07991
120.131 2.1233
120.131 2.10711
120.131 2.15085
120.131 2.09716
EOD
$d8 << EOD
72.515 2.77449 2.41021 3.13876
76.3883 2.76262 2.40377 3.12148
80.2614 2.68044 2.36628 2.99459
96 2.70874 2.35853 3.05895
EOD
$d9 << EOD
96 2.31542
96 3.01005
96 2.97861
96 2.34638
96 3.01332
96 2.58863
72.515 2.36586
72.515 3.13422
72.515 2.90582
72.515 2.35051
72.515 3.10454
72.515 2.78599
76.3883 2.34815
76.3883 3.18957
76.3883 2.91897
76.3883 2.36062
76.3883 2.97236
76.3883 2.78607
80.2614 2.31433
80.2614 3.02904
80.2614 2.87363
80.2614 2.38218
80.2614 2.91308
80.2614 2.57035
EOD
$d10 << EOD
76.5726 2.74096 2.40934 3.07259
EOD
$d11 << EOD
76.5726 2.37212
76.5726 3.04287
76.5726 2.97082
76.5726 2.35111
76.5726 2.99851
76.5726 2.71035
EOD
$d12 << EOD
88.2536 2.72216 2.3318 3.11252
EOD
$d13 << EOD
88.2536 2.32702
88.2536 3.19163
88.2536 2.9141
88.2536 2.3167
88.2536 3.02016
88.2536 2.56337
EOD
$d14 << EOD
88.1307 2.71274 2.35851 3.06698
EOD
$d15 << EOD
88.1307 2.32073
88.1307 3.03529
88.1307 2.87912
88.1307 2.35617
88.1307 3.09102
88.1307 2.59414
EOD
$d16 << EOD
104.515 -0.000227257 -0.0249365 0.024482
108.388 0.00270521 -0.0104202 0.0158306
112.261 0.0047238 -0.0201547 0.0296023
EOD
$d17 << EOD
104.515 -0.00810592
104.515 0.0247616
104.515 0.0163159
104.515 -0.00356323
104.515 -0.0412801
104.515 0.0105082
108.388 -0.0129266
108.388 0.00447998
108.388 0.0248694
108.388 0.00317912
108.388 -0.0032028
108.388 -0.000167749
112.261 -0.0197499
112.261 0.0218783
112.261 0.0421684
112.261 -0.000749568
112.261 -0.0171116
112.261 0.00190715
EOD
$d18 << EOD
108.573 0.0087974 -0.0224271 0.0400219
EOD
$d19 << EOD
108.573 -0.00591646
108.573 0.0442695
108.573 0.0128275
108.573 -0.00519897
108.573 -0.0332131
108.573 0.0400159
EOD
$d20 << EOD
120.254 -0.000211559 -0.0136052 0.0131821
EOD
$d21 << EOD
120.254 -0.0221425
120.254 0.0157925
120.254 0.00776105
120.254 0.00188904
120.254 -0.00290376
120.254 -0.00166572
EOD
$d22 << EOD
120.131 0.00437585 -0.0143951 0.0231468
EOD
$d23 << EOD
120.131 -0.0100886
120.131 0.0136047
120.131 0.0361714
120.131 0.000248063
120.131 -0.010423
120.131 -0.00325741
EOD
$d24 << EOD
72.515 0.0657509 -0.0333703 0.164872
76.3883 0.053887 -0.0613545 0.169128
80.2614 -0.0283008 -0.091691 0.0350894
EOD
$d25 << EOD
72.515 0.0504349
72.515 0.124166
72.515 -0.0727953
72.515 0.00413362
72.515 0.0912144
72.515 0.197352
76.3883 0.0327335
76.3883 0.179521
76.3883 -0.0596408
76.3883 0.014241
76.3883 -0.0409658
76.3883 0.197434
80.2614 -0.00108558
80.2614 0.0189913
80.2614 -0.104984
80.2614 0.035805
80.2614 -0.100245
80.2614 -0.018287
EOD
$d26 << EOD
76.5726 0.0322279 -0.0216458 0.0861017
EOD
$d27 << EOD
76.5726 0.0567011
76.5726 0.0328235
76.5726 -0.00779296
76.5726 0.00473268
76.5726 -0.0148091
76.5726 0.121712
EOD
$d28 << EOD
88.2536 0.0134247 -0.0777664 0.104616
EOD
$d29 << EOD
88.2536 0.0115957
88.2536 0.181584
88.2536 -0.0645144
88.2536 -0.0296814
88.2536 0.00683435
88.2536 -0.0252696
EOD
$d30 << EOD
88.1307 0.00400774 -0.0565166 0.0645321
EOD
$d31 << EOD
88.1307 0.00530497
88.1307 0.025241
88.1307 -0.0994949
88.1307 0.00979329
88.1307 0.077696
88.1307 0.00550615
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'none' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int8:block128:rn' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'ulp8:rn' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle
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

plot $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'none' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d10 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d11 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d12 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int8:block128:rn' noenhanced, $d13 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d14 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'ulp8:rn' noenhanced, $d15 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle
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

plot $d16 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'none' noenhanced, $d17 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d18 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d19 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d20 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int8:block128:rn' noenhanced, $d21 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d22 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'ulp8:rn' noenhanced, $d23 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle
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

plot $d24 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'none' noenhanced, $d25 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d26 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d27 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d28 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int8:block128:rn' noenhanced, $d29 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d30 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'ulp8:rn' noenhanced, $d31 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle
unset multiplot
set output
