set encoding utf8
$d0 << EOD
0.3 0.138704
0.1 0.159029
0.03 0.169338
0.01 0.180112
EOD
$d1 << EOD
0.3 0.152769
0.1 0.164859
0.03 0.17233
0.01 0.179436
EOD
$d2 << EOD
0.3 0.0419228
0.1 0.021874
0.03 0.0204131
0.01 0.0209176
EOD
$d3 << EOD
0.3 0.0458029
0.1 0.0226972
0.03 0.0197882
0.01 0.0210794
EOD
$d4 << EOD
0.3 0.0380118
0.1 0.0129472
0.03 0.00547605
0.01 0.00474117
EOD
$d5 << EOD
0.3 0.0414642
0.1 0.0135097
0.03 0.00567349
0.01 0.0046806
EOD
$d6 << EOD
0.3 0.0377849
0.1 0.0124119
0.03 0.00380225
0.01 0.00155365
EOD
$d7 << EOD
0.3 0.0412184
0.1 0.0129143
0.03 0.00396561
0.01 0.00162576
EOD
$d8 << EOD
0.3 0.0377709
0.1 0.0123789
0.03 0.00369773
0.01 0.00124629
EOD
$d9 << EOD
0.3 0.0411896
0.1 0.0128809
0.03 0.0038607
0.01 0.00130602
EOD
$d10 << EOD
0.3 0.766764
0.1 0.905399
0.03 0.967505
0.01 0.988003
EOD
$d11 << EOD
0.3 0.751402
0.1 0.899585
0.03 0.965787
0.01 0.987315
EOD
$d12 << EOD
0.3 0.33235
0.1 0.659219
0.03 0.891602
0.01 0.964395
EOD
$d13 << EOD
0.3 0.331644
0.1 0.656181
0.03 0.889181
0.01 0.963515
EOD
$d14 << EOD
0.3 0.0878511
0.1 0.238314
0.03 0.592274
0.01 0.852789
EOD
$d15 << EOD
0.3 0.0890149
0.1 0.24267
0.03 0.595509
0.01 0.853908
EOD
$d16 << EOD
0.3 0.0219748
0.1 0.0617603
0.03 0.197175
0.01 0.491045
EOD
$d17 << EOD
0.3 0.0221078
0.1 0.0631984
0.03 0.202318
0.01 0.498048
EOD
$d18 << EOD
0.3 0.00546715
0.1 0.015371
0.03 0.0492117
0.01 0.139595
EOD
$d19 << EOD
0.3 0.00551797
0.1 0.0155844
0.03 0.0506001
0.01 0.14389
EOD
$d20 << EOD
0.03 0.0837013
0.01 0.0476469
0.003 0.0352638
0.001 0.0297829
EOD
$d21 << EOD
0.03 0.0885356
0.01 0.0481861
0.003 0.0336709
0.001 0.0283082
EOD
$d22 << EOD
0.03 0.0413996
0.01 0.0169583
0.003 0.00831343
0.001 0.0054604
EOD
$d23 << EOD
0.03 0.0451277
0.01 0.0177714
0.003 0.00877488
0.001 0.00585356
EOD
$d24 << EOD
0.03 0.0371787
0.01 0.0128707
0.003 0.00463559
0.001 0.00226843
EOD
$d25 << EOD
0.03 0.0404666
0.01 0.0134074
0.003 0.00486425
0.001 0.00242312
EOD
$d26 << EOD
0.03 0.036887
0.01 0.0123167
0.003 0.00379853
0.001 0.00143347
EOD
$d27 << EOD
0.03 0.0401415
0.01 0.0128182
0.003 0.00396953
0.001 0.00149513
EOD
$d28 << EOD
0.03 0.036869
0.01 0.0122809
0.003 0.00368942
0.001 0.00124544
EOD
$d29 << EOD
0.03 0.0401115
0.01 0.0127874
0.003 0.00384914
0.001 0.00130261
EOD
$d30 << EOD
0.03 0.901039
0.01 0.963699
0.003 0.988017
0.001 0.996751
EOD
$d31 << EOD
0.03 0.898134
0.01 0.962904
0.003 0.987744
0.001 0.996725
EOD
$d32 << EOD
0.03 0.762287
0.01 0.913526
0.003 0.974023
0.001 0.990678
EOD
$d33 << EOD
0.03 0.751998
0.01 0.911679
0.003 0.973593
0.001 0.990561
EOD
$d34 << EOD
0.03 0.352734
0.01 0.675783
0.003 0.899548
0.001 0.966079
EOD
$d35 << EOD
0.03 0.342865
0.01 0.670872
0.003 0.89918
0.001 0.966078
EOD
$d36 << EOD
0.03 0.0966916
0.01 0.254916
0.003 0.622653
0.001 0.863075
EOD
$d37 << EOD
0.03 0.0939112
0.01 0.252699
0.003 0.621846
0.001 0.863558
EOD
$d38 << EOD
0.03 0.0241891
0.01 0.0673899
0.003 0.211755
0.001 0.498353
EOD
$d39 << EOD
0.03 0.0234719
0.01 0.0668885
0.003 0.211193
0.001 0.499451
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'logistic' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,960 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,960 background '#ffffff'
}
set output file
set multiplot layout 2,3
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
unset logscale
set autoscale
set format
set xtics auto
set title 'logistic regression, SGD' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'loss above the optimum''s' noenhanced
set logscale xy
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2 with lines lc '#0072B2' notitle, $d1 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d2 using 1:2 with lines lc '#D55E00' notitle, $d3 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d4 using 1:2 with lines lc '#009E73' notitle, $d5 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d6 using 1:2 with lines lc '#CC79A7' notitle, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d8 using 1:2 with lines lc '#E69F00' notitle, $d9 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set title 'updates lost, SGD' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'share' noenhanced
set logscale x
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d10 using 1:2 with lines lc '#0072B2' notitle, $d11 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d12 using 1:2 with lines lc '#D55E00' notitle, $d13 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d14 using 1:2 with lines lc '#009E73' notitle, $d15 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d16 using 1:2 with lines lc '#CC79A7' notitle, $d17 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d18 using 1:2 with lines lc '#E69F00' notitle, $d19 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set title 'logistic regression, SGDM 0.9' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'loss above the optimum''s' noenhanced
set logscale xy
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d20 using 1:2 with lines lc '#0072B2' notitle, $d21 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d22 using 1:2 with lines lc '#D55E00' notitle, $d23 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d24 using 1:2 with lines lc '#009E73' notitle, $d25 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d26 using 1:2 with lines lc '#CC79A7' notitle, $d27 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d28 using 1:2 with lines lc '#E69F00' notitle, $d29 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set title 'updates lost, SGDM 0.9' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'share' noenhanced
set logscale x
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d30 using 1:2 with lines lc '#0072B2' notitle, $d31 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d32 using 1:2 with lines lc '#D55E00' notitle, $d33 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d34 using 1:2 with lines lc '#009E73' notitle, $d35 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d36 using 1:2 with lines lc '#CC79A7' notitle, $d37 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d38 using 1:2 with lines lc '#E69F00' notitle, $d39 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset multiplot
set output
