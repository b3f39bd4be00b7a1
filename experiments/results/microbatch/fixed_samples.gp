set encoding utf8
$d0 << EOD
1 2.02623 1.88487 2.16759
2 1.98684 1.95949 2.01419
4 2.04509 1.78553 2.30466
8 2.33066 0.51772 4.14359
16 2.91057 0.974905 4.84624
EOD
$d1 << EOD
1 2.0219 1.98332 2.06047
2 1.99402 1.90258 2.08546
4 2.03414 1.95114 2.11714
8 2.38858 -0.504043 5.2812
16 2.99435 1.84766 4.14105
EOD
$d2 << EOD
1 2.19334 2.00928 2.3774
2 2.12916 1.89798 2.36035
4 2.132 1.80962 2.45438
8 2.44015 -0.418387 5.29869
16 3.13673 1.47501 4.79844
EOD
$d3 << EOD
1 2.03879 1.86794 2.20965
2 2.00832 1.9471 2.06954
4 2.04301 1.80944 2.27658
8 2.48733 -0.700383 5.67504
16 2.68473 0.648969 4.7205
EOD
$d4 << EOD
1 2.64291 2.33797 2.94786
2 2.55847 2.32444 2.79251
4 2.48555 2.07376 2.89734
8 2.56503 2.06778 3.06228
16 2.93712 0.0709497 5.80329
EOD
$d5 << EOD
1 -0.00433277 -0.107121 0.0984555
2 0.00718085 -0.0569131 0.0712748
4 -0.010954 -0.353519 0.331611
8 0.0579232 -1.02176 1.13761
16 0.0837802 -0.705195 0.872756
EOD
$d6 << EOD
1 0.16711 -0.158309 0.492528
2 0.142321 -0.116213 0.400855
4 0.0869036 0.0240909 0.149716
8 0.109497 -0.936107 1.1551
16 0.226155 -0.0477994 0.500109
EOD
$d7 << EOD
1 0.0125644 -0.0169306 0.0420595
2 0.021483 -0.0670875 0.110053
4 -0.00208378 -0.0280844 0.0239168
8 0.156672 -1.2181 1.53145
16 -0.225841 -0.325936 -0.125745
EOD
$d8 << EOD
1 0.616684 0.4531 0.780268
2 0.571635 0.364952 0.778318
4 0.440456 0.288233 0.59268
8 0.23437 -1.08132 1.55006
16 0.0265438 -0.903955 0.957043
EOD
$d9 << EOD
1 0.750479 0.720132 0.780826
2 0.692294 0.663299 0.721288
4 0.625562 0.612953 0.63817
8 0.57809 0.474644 0.681537
16 0.617673 0.217983 1.01736
EOD
$d10 << EOD
1 0.829668 0.819838 0.839497
2 0.759989 0.75173 0.768249
4 0.692943 0.6181 0.767786
8 0.644657 0.478349 0.810964
16 0.717598 0.178468 1.25673
EOD
$d11 << EOD
1 0.923875 0.912082 0.935667
2 0.895518 0.893722 0.897315
4 0.85983 0.851503 0.868158
8 0.817718 0.752776 0.882659
16 0.808577 0.755968 0.861185
EOD
$d12 << EOD
1 0.974333 0.974204 0.974462
2 0.958501 0.956626 0.960376
4 0.929647 0.898614 0.96068
8 0.89562 0.877666 0.913575
16 0.881254 0.800908 0.961601
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fixed_samples' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss, the same samples in all' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
set logscale x
set yrange [1.8:3.4]

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:sr:sticky' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:rn:sticky' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int6:block128:sr:sticky' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int6:block128:rn:sticky' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss above that of fp32 parameters' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale x
set yrange [-0.3:0.8]

plot $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:sr:sticky' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:rn:sticky' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int6:block128:sr:sticky' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int6:block128:rn:sticky' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'share of updates that changed no code' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'underflow.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale x
set yrange [0:1]

plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'int8:block128:sr:sticky' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:rn:sticky' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int6:block128:sr:sticky' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int6:block128:rn:sticky' noenhanced
unset multiplot
set output
