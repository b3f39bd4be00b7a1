$d0 << EOD
0.1 0.00819894
0.03 0.00819894
0.01 0.00819894
0.003 0.00819894
0.001 0.00819894
EOD
$d1 << EOD
0.1 0.00827693
0.03 0.00808334
0.01 0.00795717
0.003 0.00831446
0.001 0.00820336
EOD
$d2 << EOD
0.1 0.00147223
0.03 0.00147085
0.01 0.00147085
0.003 0.00147085
0.001 0.00147085
EOD
$d3 << EOD
0.1 0.0014696
0.03 0.00147384
0.01 0.00145979
0.003 0.00147702
0.001 0.00146621
EOD
$d4 << EOD
0.1 0.000588548
0.03 0.000343228
0.01 0.000341716
0.003 0.000341716
0.001 0.000341716
EOD
$d5 << EOD
0.1 0.000589667
0.03 0.000339302
0.01 0.000343229
0.003 0.000344058
0.001 0.000338434
EOD
$d6 << EOD
0.1 0.000530149
0.03 0.000164608
0.01 8.66172e-05
0.003 8.37455e-05
0.001 8.37455e-05
EOD
$d7 << EOD
0.1 0.000531897
0.03 0.000163681
0.01 8.67594e-05
0.003 8.39309e-05
0.001 8.31452e-05
EOD
$d8 << EOD
0.1 0.000526555
0.03 0.000153054
0.01 5.25387e-05
0.003 2.26139e-05
0.001 2.0871e-05
EOD
$d9 << EOD
0.1 0.000528782
0.03 0.00015313
0.01 5.09473e-05
0.003 2.26005e-05
0.001 2.06197e-05
EOD
$d10 << EOD
0.1 0.026305
0.03 0.0830281
0.01 0.246179
0.003 0.817568
0.001 2.45021
EOD
$d11 << EOD
0.1 0.0018616
0.03 0.00440491
0.01 0.0125994
0.003 0.0417009
0.001 0.124937
EOD
$d12 << EOD
0.1 0.00186553
0.03 0.00443968
0.01 0.0126659
EOD
$d13 << EOD
0.1 0.000606046
0.03 0.000407862
0.01 0.000800715
0.003 0.00248869
0.001 0.00742406
EOD
$d14 << EOD
0.1 0.000608299
0.03 0.000406707
0.01 0.000818659
0.003 0.00252785
0.001 0.00743299
EOD
$d15 << EOD
0.1 0.000531241
0.03 0.000168097
0.01 9.71031e-05
0.003 0.000168899
0.001 0.000464482
EOD
$d16 << EOD
0.1 0.000531536
0.03 0.000168039
0.01 9.60441e-05
0.003 0.00016652
0.001 0.00046655
EOD
$d17 << EOD
0.1 0.000526623
0.03 0.00015327
0.01 5.31717e-05
0.003 2.47066e-05
0.001 3.38947e-05
EOD
$d18 << EOD
0.1 0.000528686
0.03 0.000153035
0.01 5.16785e-05
0.003 2.43801e-05
0.001 3.44194e-05
EOD
$d19 << EOD
0.1 0.00829634
0.03 0.017388
0.01 0.0258255
0.003 0.0365716
0.001 0.0588738
EOD
$d20 << EOD
0.1 0.00503153
0.03 0.00533831
0.01 0.00670132
0.003 0.00909159
0.001 0.0118007
EOD
$d21 << EOD
0.1 0.000890752
0.03 0.00114398
0.01 0.00187047
0.003 0.00377361
0.001 0.00616213
EOD
$d22 << EOD
0.1 0.000869256
0.03 0.000975087
0.01 0.0014826
0.003 0.00260198
0.001 0.00404722
EOD
$d23 << EOD
0.1 0.000547656
0.03 0.000217854
0.01 0.000223838
0.003 0.000470353
0.001 0.00106434
EOD
$d24 << EOD
0.1 0.000548725
0.03 0.000218522
0.01 0.000245461
0.003 0.000598794
0.001 0.00139168
EOD
$d25 << EOD
0.1 0.000527631
0.03 0.000156296
0.01 6.19555e-05
0.003 4.79308e-05
0.001 4.95032e-05
EOD
$d26 << EOD
0.1 0.000529809
0.03 0.000156648
0.01 6.09989e-05
0.003 4.77439e-05
0.001 4.73662e-05
EOD
$d27 << EOD
0.1 0.000526398
0.03 0.000152534
0.01 5.09778e-05
0.003 1.74154e-05
0.001 1.17568e-05
EOD
$d28 << EOD
0.1 0.000528713
0.03 0.000152646
0.01 4.9743e-05
0.003 1.74196e-05
0.001 1.14922e-05
EOD
$d29 << EOD
0.01 0.00787404
0.003 0.00534244
0.001 0.00456164
0.0003 0.00428191
0.0001 0.00420136
EOD
$d30 << EOD
0.01 0.00770184
0.003 0.00542325
0.001 0.00484196
0.0003 0.00439175
0.0001 0.00438738
EOD
$d31 << EOD
0.01 0.00121603
0.003 0.000671098
0.001 0.00050682
0.0003 0.000448371
0.0001 0.000431579
EOD
$d32 << EOD
0.01 0.0012181
0.003 0.000661272
0.001 0.00048431
0.0003 0.000444499
0.0001 0.000427763
EOD
$d33 << EOD
0.01 0.000602742
0.003 0.000244344
0.001 0.000137287
0.0003 9.93027e-05
0.0001 8.84005e-05
EOD
$d34 << EOD
0.01 0.000603739
0.003 0.000242958
0.001 0.00013509
0.0003 9.81016e-05
0.0001 8.877e-05
EOD
$d35 << EOD
0.01 0.00050843
0.003 0.000164655
0.001 6.83229e-05
0.0003 3.41847e-05
0.0001 2.43886e-05
EOD
$d36 << EOD
0.01 0.000507618
0.003 0.000166028
0.001 6.65722e-05
0.0003 3.43641e-05
0.0001 2.48781e-05
EOD
$d37 << EOD
0.01 0.000501764
0.003 0.000151094
0.001 5.24723e-05
0.0003 1.91213e-05
0.0001 9.5816e-06
EOD
$d38 << EOD
0.01 0.000501463
0.003 0.000152951
0.001 5.12061e-05
0.0003 1.91733e-05
0.0001 9.386e-06
EOD
$d39 << EOD
0.01 0.0483178
0.003 0.105066
0.001 0.268219
0.0003 0.839609
0.0001 2.47225
EOD
$d40 << EOD
0.01 0.00295606
0.003 0.00551421
0.001 0.0137223
0.0003 0.0428247
0.0001 0.126061
EOD
$d41 << EOD
0.01 0.00296051
0.003 0.00559144
0.001 0.0136897
EOD
$d42 << EOD
0.01 0.000648614
0.003 0.000470009
0.001 0.000864221
0.0003 0.0025528
0.0001 0.00748763
EOD
$d43 << EOD
0.01 0.00064998
0.003 0.000471731
0.001 0.000896586
0.0003 0.00257556
0.0001 0.00759417
EOD
$d44 << EOD
0.01 0.000510451
0.003 0.000170109
0.001 0.000100606
0.0003 0.000171932
0.0001 0.000467347
EOD
$d45 << EOD
0.01 0.000509952
0.003 0.000172241
0.001 9.97636e-05
0.0003 0.000173516
0.0001 0.000472507
EOD
$d46 << EOD
0.01 0.000501888
0.003 0.000151367
0.001 5.3197e-05
0.0003 2.4845e-05
0.0001 3.38903e-05
EOD
$d47 << EOD
0.01 0.000501504
0.003 0.000152762
0.001 5.17214e-05
0.0003 2.44691e-05
0.0001 3.34754e-05
EOD
$d48 << EOD
0.01 0.0128735
0.003 0.0104166
0.001 0.0109988
0.0003 0.00986594
0.0001 0.0114063
EOD
$d49 << EOD
0.01 0.00448536
0.003 0.00318919
0.001 0.00338693
0.0003 0.0031826
0.0001 0.00351966
EOD
$d50 << EOD
0.01 0.00105305
0.003 0.000804324
0.001 0.000806943
0.0003 0.00100003
0.0001 0.00126187
EOD
$d51 << EOD
0.01 0.000961321
0.003 0.000656068
0.001 0.000645253
0.0003 0.000747899
0.0001 0.0009242
EOD
$d52 << EOD
0.01 0.000540677
0.003 0.000214599
0.001 0.000166079
0.0003 0.000228344
0.0001 0.000362701
EOD
$d53 << EOD
0.01 0.000541813
0.003 0.000222911
0.001 0.000197901
0.0003 0.000280158
0.0001 0.000478075
EOD
$d54 << EOD
0.01 0.000503755
0.003 0.000155197
0.001 5.92168e-05
0.0003 2.59498e-05
0.0001 1.65638e-05
EOD
$d55 << EOD
0.01 0.000504037
0.003 0.000156715
0.001 5.77703e-05
0.0003 2.63469e-05
0.0001 1.66446e-05
EOD
$d56 << EOD
0.01 0.000501471
0.003 0.000150435
0.001 5.08043e-05
0.0003 1.69611e-05
0.0001 7.47968e-06
EOD
$d57 << EOD
0.01 0.000501441
0.003 0.000152566
0.001 4.94149e-05
0.0003 1.68047e-05
0.0001 7.31058e-06
EOD
set grid
set key below
set terminal png size 1680,960
set output 'quadratic.png'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set title 'SGD, sticky step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d0 using 1:2 with lines lc '#0072B2' notitle, $d1 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d2 using 1:2 with lines lc '#D55E00' notitle, $d3 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d4 using 1:2 with lines lc '#009E73' notitle, $d5 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d6 using 1:2 with lines lc '#CC79A7' notitle, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d8 using 1:2 with lines lc '#8C8C00' notitle, $d9 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGD, moving step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d10 using 1:2 with lines lc '#0072B2' notitle, $d11 using 1:2 with lines lc '#D55E00' notitle, $d12 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d13 using 1:2 with lines lc '#009E73' notitle, $d14 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d15 using 1:2 with lines lc '#CC79A7' notitle, $d16 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d17 using 1:2 with lines lc '#8C8C00' notitle, $d18 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGD, moving-natural step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d19 using 1:2 with lines lc '#0072B2' notitle, $d20 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d21 using 1:2 with lines lc '#D55E00' notitle, $d22 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d23 using 1:2 with lines lc '#009E73' notitle, $d24 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d25 using 1:2 with lines lc '#CC79A7' notitle, $d26 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d27 using 1:2 with lines lc '#8C8C00' notitle, $d28 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGDM 0.9, sticky step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d29 using 1:2 with lines lc '#0072B2' notitle, $d30 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d31 using 1:2 with lines lc '#D55E00' notitle, $d32 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d33 using 1:2 with lines lc '#009E73' notitle, $d34 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d35 using 1:2 with lines lc '#CC79A7' notitle, $d36 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d37 using 1:2 with lines lc '#8C8C00' notitle, $d38 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGDM 0.9, moving step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d39 using 1:2 with lines lc '#0072B2' notitle, $d40 using 1:2 with lines lc '#D55E00' notitle, $d41 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d42 using 1:2 with lines lc '#009E73' notitle, $d43 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d44 using 1:2 with lines lc '#CC79A7' notitle, $d45 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d46 using 1:2 with lines lc '#8C8C00' notitle, $d47 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGDM 0.9, moving-natural step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d48 using 1:2 with lines lc '#0072B2' notitle, $d49 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d50 using 1:2 with lines lc '#D55E00' notitle, $d51 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d52 using 1:2 with lines lc '#009E73' notitle, $d53 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d54 using 1:2 with lines lc '#CC79A7' notitle, $d55 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d56 using 1:2 with lines lc '#8C8C00' notitle, $d57 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset multiplot
set terminal svg size 1680,960 dynamic background 'white'
set output 'quadratic.svg'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set title 'SGD, sticky step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d0 using 1:2 with lines lc '#0072B2' notitle, $d1 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d2 using 1:2 with lines lc '#D55E00' notitle, $d3 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d4 using 1:2 with lines lc '#009E73' notitle, $d5 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d6 using 1:2 with lines lc '#CC79A7' notitle, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d8 using 1:2 with lines lc '#8C8C00' notitle, $d9 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGD, moving step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d10 using 1:2 with lines lc '#0072B2' notitle, $d11 using 1:2 with lines lc '#D55E00' notitle, $d12 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d13 using 1:2 with lines lc '#009E73' notitle, $d14 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d15 using 1:2 with lines lc '#CC79A7' notitle, $d16 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d17 using 1:2 with lines lc '#8C8C00' notitle, $d18 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGD, moving-natural step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d19 using 1:2 with lines lc '#0072B2' notitle, $d20 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d21 using 1:2 with lines lc '#D55E00' notitle, $d22 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d23 using 1:2 with lines lc '#009E73' notitle, $d24 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d25 using 1:2 with lines lc '#CC79A7' notitle, $d26 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d27 using 1:2 with lines lc '#8C8C00' notitle, $d28 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGDM 0.9, sticky step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d29 using 1:2 with lines lc '#0072B2' notitle, $d30 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d31 using 1:2 with lines lc '#D55E00' notitle, $d32 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d33 using 1:2 with lines lc '#009E73' notitle, $d34 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d35 using 1:2 with lines lc '#CC79A7' notitle, $d36 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d37 using 1:2 with lines lc '#8C8C00' notitle, $d38 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGDM 0.9, moving step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d39 using 1:2 with lines lc '#0072B2' notitle, $d40 using 1:2 with lines lc '#D55E00' notitle, $d41 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d42 using 1:2 with lines lc '#009E73' notitle, $d43 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d44 using 1:2 with lines lc '#CC79A7' notitle, $d45 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d46 using 1:2 with lines lc '#8C8C00' notitle, $d47 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset logscale
set autoscale
set format
set title 'SGDM 0.9, moving-natural step, sr'
set xlabel 'learning rate'
set ylabel 'E (x - optimum)^2'
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
plot $d48 using 1:2 with lines lc '#0072B2' notitle, $d49 using 1:2 with points pt 7 lc '#0072B2' title 'int4', $d50 using 1:2 with lines lc '#D55E00' notitle, $d51 using 1:2 with points pt 7 lc '#D55E00' title 'int6', $d52 using 1:2 with lines lc '#009E73' notitle, $d53 using 1:2 with points pt 7 lc '#009E73' title 'int8', $d54 using 1:2 with lines lc '#CC79A7' notitle, $d55 using 1:2 with points pt 7 lc '#CC79A7' title 'int10', $d56 using 1:2 with lines lc '#8C8C00' notitle, $d57 using 1:2 with points pt 7 lc '#8C8C00' title 'int12'
unset multiplot
