$d0 << EOD
0.1 0.00819894
0.03 0.00819894
0.01 0.00819894
0.003 0.00819894
0.001 0.00819894
EOD
$d1 << EOD
0.1 0.00827879
0.03 0.008089
0.01 0.00794944
0.003 0.008342
0.001 0.00818999
EOD
$d2 << EOD
0.1 0.00147223
0.03 0.00147085
0.01 0.00147085
0.003 0.00147085
0.001 0.00147085
EOD
$d3 << EOD
0.1 0.00146917
0.03 0.00147322
0.01 0.00145804
0.003 0.00147543
0.001 0.0014685
EOD
$d4 << EOD
0.1 0.000588548
0.03 0.000343228
0.01 0.000341716
0.003 0.000341716
0.001 0.000341716
EOD
$d5 << EOD
0.1 0.000589709
0.03 0.000339016
0.01 0.000343154
0.003 0.000344005
0.001 0.000338049
EOD
$d6 << EOD
0.1 0.000530149
0.03 0.000164608
0.01 8.66172e-05
0.003 8.37455e-05
0.001 8.37455e-05
EOD
$d7 << EOD
0.1 0.000531909
0.03 0.000163661
0.01 8.67451e-05
0.003 8.39386e-05
0.001 8.31325e-05
EOD
$d8 << EOD
0.1 0.000526555
0.03 0.000153054
0.01 5.25387e-05
0.003 2.26139e-05
0.001 2.0871e-05
EOD
$d9 << EOD
0.1 0.000528777
0.03 0.00015313
0.01 5.09482e-05
0.003 2.26003e-05
0.001 2.06224e-05
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
0.1 0.00186631
0.03 0.00444144
0.01 0.0126602
EOD
$d13 << EOD
0.1 0.000606046
0.03 0.000407862
0.01 0.000800715
0.003 0.00248869
0.001 0.00742406
EOD
$d14 << EOD
0.1 0.000608297
0.03 0.000406883
0.01 0.000818806
0.003 0.00252724
0.001 0.00743309
EOD
$d15 << EOD
0.1 0.000531241
0.03 0.000168097
0.01 9.71031e-05
0.003 0.000168899
0.001 0.000464482
EOD
$d16 << EOD
0.1 0.0005315
0.03 0.000168022
0.01 9.60278e-05
0.003 0.000166469
0.001 0.000466497
EOD
$d17 << EOD
0.1 0.000526623
0.03 0.00015327
0.01 5.31717e-05
0.003 2.47066e-05
0.001 3.38947e-05
EOD
$d18 << EOD
0.1 0.000528694
0.03 0.000153039
0.01 5.16754e-05
0.003 2.44008e-05
0.001 3.44037e-05
EOD
$d19 << EOD
0.1 0.00832912
0.03 0.017264
0.01 0.0251813
0.003 0.0378288
0.001 0.0591668
EOD
$d20 << EOD
0.1 0.00505951
0.03 0.00544135
0.01 0.00673397
0.003 0.00901487
0.001 0.0119269
EOD
$d21 << EOD
0.1 0.000891072
0.03 0.0011449
0.01 0.00189908
0.003 0.00370839
0.001 0.00609911
EOD
$d22 << EOD
0.1 0.000873694
0.03 0.000982983
0.01 0.00147976
0.003 0.00257136
0.001 0.00402106
EOD
$d23 << EOD
0.1 0.000547661
0.03 0.000217859
0.01 0.000223609
0.003 0.000471294
0.001 0.00106142
EOD
$d24 << EOD
0.1 0.000549322
0.03 0.000218288
0.01 0.000244952
0.003 0.00059213
0.001 0.00138217
EOD
$d25 << EOD
0.1 0.000527631
0.03 0.000156296
0.01 6.19557e-05
0.003 4.7895e-05
0.001 4.95301e-05
EOD
$d26 << EOD
0.1 0.000529825
0.03 0.000156603
0.01 6.10696e-05
0.003 4.77051e-05
0.001 4.73497e-05
EOD
$d27 << EOD
0.1 0.000526398
0.03 0.000152534
0.01 5.09778e-05
0.003 1.74155e-05
0.001 1.17572e-05
EOD
$d28 << EOD
0.1 0.000528709
0.03 0.000152639
0.01 4.97521e-05
0.003 1.74208e-05
0.001 1.14942e-05
EOD
$d29 << EOD
0.1 0.00652776
0.03 0.00645442
0.01 0.00646228
0.003 0.00649994
0.001 0.00648282
EOD
$d30 << EOD
0.1 0.00711585
0.03 0.00693426
0.01 0.0070559
0.003 0.00695354
0.001 0.00695183
EOD
$d31 << EOD
0.1 0.00112222
0.03 0.00109841
0.01 0.00109656
0.003 0.00109671
0.001 0.00109848
EOD
$d32 << EOD
0.1 0.00113449
0.03 0.00111888
0.01 0.00111
0.003 0.00110932
0.001 0.00111138
EOD
$d33 << EOD
0.1 0.000562903
0.03 0.000258315
0.01 0.000246617
0.003 0.000246587
0.001 0.000246525
EOD
$d34 << EOD
0.1 0.000566935
0.03 0.000256017
0.01 0.000247866
0.003 0.000245108
0.001 0.00024374
EOD
$d35 << EOD
0.1 0.000528569
0.03 0.000158851
0.01 6.90235e-05
0.003 5.96221e-05
0.001 5.96221e-05
EOD
$d36 << EOD
0.1 0.000531471
0.03 0.000158498
0.01 6.76686e-05
0.003 5.89911e-05
0.001 5.87099e-05
EOD
$d37 << EOD
0.1 0.000526457
0.03 0.000152695
0.01 5.14247e-05
0.003 1.88567e-05
0.001 1.47915e-05
EOD
$d38 << EOD
0.1 0.000528628
0.03 0.000152759
0.01 4.99325e-05
0.003 1.87432e-05
0.001 1.47075e-05
EOD
$d39 << EOD
0.01 0.00787404
0.003 0.00534244
0.001 0.00456164
0.0003 0.00428191
0.0001 0.00420136
EOD
$d40 << EOD
0.01 0.00767004
0.003 0.00539147
0.001 0.0048354
0.0003 0.00440007
0.0001 0.00439912
EOD
$d41 << EOD
0.01 0.00121603
0.003 0.000671098
0.001 0.00050682
0.0003 0.000448371
0.0001 0.000431579
EOD
$d42 << EOD
0.01 0.00121442
0.003 0.000667563
0.001 0.000486104
0.0003 0.000444639
0.0001 0.000428377
EOD
$d43 << EOD
0.01 0.000602742
0.003 0.000244344
0.001 0.000137287
0.0003 9.93027e-05
0.0001 8.84005e-05
EOD
$d44 << EOD
0.01 0.000603545
0.003 0.000242376
0.001 0.000135001
0.0003 9.80005e-05
0.0001 8.86852e-05
EOD
$d45 << EOD
0.01 0.00050843
0.003 0.000164655
0.001 6.83229e-05
0.0003 3.41847e-05
0.0001 2.43886e-05
EOD
$d46 << EOD
0.01 0.000507862
0.003 0.000166131
0.001 6.65671e-05
0.0003 3.43863e-05
0.0001 2.48806e-05
EOD
$d47 << EOD
0.01 0.000501764
0.003 0.000151094
0.001 5.24723e-05
0.0003 1.91213e-05
0.0001 9.5816e-06
EOD
$d48 << EOD
0.01 0.00050152
0.003 0.000152945
0.001 5.11987e-05
0.0003 1.91766e-05
0.0001 9.3868e-06
EOD
$d49 << EOD
0.01 0.0483178
0.003 0.105066
0.001 0.268219
0.0003 0.839609
0.0001 2.47225
EOD
$d50 << EOD
0.01 0.00295606
0.003 0.00551421
0.001 0.0137223
0.0003 0.0428247
0.0001 0.126061
EOD
$d51 << EOD
0.01 0.00296394
0.003 0.00559138
0.001 0.0136908
EOD
$d52 << EOD
0.01 0.000648614
0.003 0.000470009
0.001 0.000864221
0.0003 0.0025528
0.0001 0.00748763
EOD
$d53 << EOD
0.01 0.000648997
0.003 0.000470516
0.001 0.000898312
0.0003 0.00257577
0.0001 0.00758997
EOD
$d54 << EOD
0.01 0.000510451
0.003 0.000170109
0.001 0.000100606
0.0003 0.000171932
0.0001 0.000467347
EOD
$d55 << EOD
0.01 0.000509732
0.003 0.000171986
0.001 9.9874e-05
0.0003 0.000173537
0.0001 0.000471914
EOD
$d56 << EOD
0.01 0.000501888
0.003 0.000151367
0.001 5.3197e-05
0.0003 2.4845e-05
0.0001 3.38903e-05
EOD
$d57 << EOD
0.01 0.000501509
0.003 0.00015276
0.001 5.17155e-05
0.0003 2.44633e-05
0.0001 3.34728e-05
EOD
$d58 << EOD
0.01 0.0128526
0.003 0.0104077
0.001 0.00978689
0.0003 0.0105941
0.0001 0.0112281
EOD
$d59 << EOD
0.01 0.00443111
0.003 0.0031989
0.001 0.00331173
0.0003 0.00329339
0.0001 0.00353857
EOD
$d60 << EOD
0.01 0.0010452
0.003 0.000788578
0.001 0.000847966
0.0003 0.0010106
0.0001 0.00127389
EOD
$d61 << EOD
0.01 0.000953036
0.003 0.000648168
0.001 0.00069745
0.0003 0.000777703
0.0001 0.000919981
EOD
$d62 << EOD
0.01 0.000540698
0.003 0.000215047
0.001 0.000163716
0.0003 0.00022319
0.0001 0.000345513
EOD
$d63 << EOD
0.01 0.00054151
0.003 0.000223254
0.001 0.000192985
0.0003 0.000282415
0.0001 0.000462275
EOD
$d64 << EOD
0.01 0.000503755
0.003 0.000155198
0.001 5.92168e-05
0.0003 2.59475e-05
0.0001 1.65605e-05
EOD
$d65 << EOD
0.01 0.000503937
0.003 0.000156699
0.001 5.77483e-05
0.0003 2.62785e-05
0.0001 1.6646e-05
EOD
$d66 << EOD
0.01 0.000501471
0.003 0.000150435
0.001 5.08043e-05
0.0003 1.69611e-05
0.0001 7.47968e-06
EOD
$d67 << EOD
0.01 0.000501434
0.003 0.000152599
0.001 4.9414e-05
0.0003 1.68002e-05
0.0001 7.31048e-06
EOD
$d68 << EOD
0.01 0.0042137
0.003 0.00332392
0.001 0.00325463
0.0003 0.00331173
0.0001 0.00336713
EOD
$d69 << EOD
0.01 0.00525567
0.003 0.00439327
0.001 0.00413976
0.0003 0.00404972
0.0001 0.00416299
EOD
$d70 << EOD
0.01 0.000809039
0.003 0.000427986
0.001 0.000335566
0.0003 0.000331922
0.0001 0.000333076
EOD
$d71 << EOD
0.01 0.000836347
0.003 0.000465344
0.001 0.000366633
0.0003 0.000354998
0.0001 0.000353658
EOD
$d72 << EOD
0.01 0.000537096
0.003 0.000185637
0.001 9.05941e-05
0.0003 6.38807e-05
0.0001 6.19123e-05
EOD
$d73 << EOD
0.01 0.000538729
0.003 0.000189761
0.001 8.89958e-05
0.0003 6.42498e-05
0.0001 6.36366e-05
EOD
$d74 << EOD
0.01 0.000505309
0.003 0.00015495
0.001 5.616e-05
0.0003 2.28932e-05
0.0001 1.52377e-05
EOD
$d75 << EOD
0.01 0.00050576
0.003 0.000156864
0.001 5.45549e-05
0.0003 2.26638e-05
0.0001 1.51116e-05
EOD
$d76 << EOD
0.01 0.000501569
0.003 0.000150634
0.001 5.09222e-05
0.0003 1.62892e-05
0.0001 6.65738e-06
EOD
$d77 << EOD
0.01 0.000501226
0.003 0.000152544
0.001 4.93498e-05
0.0003 1.60296e-05
0.0001 6.46616e-06
EOD
set grid
set xlabel offset 0,0.6
set terminal png size 1680,1440
set output 'quadratic.png'
set multiplot layout 3,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2 with lines lc '#0072B2' notitle, $d1 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d2 using 1:2 with lines lc '#D55E00' notitle, $d3 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d4 using 1:2 with lines lc '#009E73' notitle, $d5 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d6 using 1:2 with lines lc '#CC79A7' notitle, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d8 using 1:2 with lines lc '#E69F00' notitle, $d9 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, moving step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d10 using 1:2 with lines lc '#0072B2' notitle, $d11 using 1:2 with lines lc '#D55E00' notitle, $d12 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d13 using 1:2 with lines lc '#009E73' notitle, $d14 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d15 using 1:2 with lines lc '#CC79A7' notitle, $d16 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d17 using 1:2 with lines lc '#E69F00' notitle, $d18 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, moving-natural step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d19 using 1:2 with lines lc '#0072B2' notitle, $d20 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d21 using 1:2 with lines lc '#D55E00' notitle, $d22 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d23 using 1:2 with lines lc '#009E73' notitle, $d24 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d25 using 1:2 with lines lc '#CC79A7' notitle, $d26 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d27 using 1:2 with lines lc '#E69F00' notitle, $d28 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky step, qr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d29 using 1:2 with lines lc '#0072B2' notitle, $d30 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d31 using 1:2 with lines lc '#D55E00' notitle, $d32 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d33 using 1:2 with lines lc '#009E73' notitle, $d34 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d35 using 1:2 with lines lc '#CC79A7' notitle, $d36 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d37 using 1:2 with lines lc '#E69F00' notitle, $d38 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d39 using 1:2 with lines lc '#0072B2' notitle, $d40 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d41 using 1:2 with lines lc '#D55E00' notitle, $d42 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d43 using 1:2 with lines lc '#009E73' notitle, $d44 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d45 using 1:2 with lines lc '#CC79A7' notitle, $d46 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d47 using 1:2 with lines lc '#E69F00' notitle, $d48 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, moving step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d49 using 1:2 with lines lc '#0072B2' notitle, $d50 using 1:2 with lines lc '#D55E00' notitle, $d51 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d52 using 1:2 with lines lc '#009E73' notitle, $d53 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d54 using 1:2 with lines lc '#CC79A7' notitle, $d55 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d56 using 1:2 with lines lc '#E69F00' notitle, $d57 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, moving-natural step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d58 using 1:2 with lines lc '#0072B2' notitle, $d59 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d60 using 1:2 with lines lc '#D55E00' notitle, $d61 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d62 using 1:2 with lines lc '#009E73' notitle, $d63 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d64 using 1:2 with lines lc '#CC79A7' notitle, $d65 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d66 using 1:2 with lines lc '#E69F00' notitle, $d67 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky step, qr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d68 using 1:2 with lines lc '#0072B2' notitle, $d69 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d70 using 1:2 with lines lc '#D55E00' notitle, $d71 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d72 using 1:2 with lines lc '#009E73' notitle, $d73 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d74 using 1:2 with lines lc '#CC79A7' notitle, $d75 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d76 using 1:2 with lines lc '#E69F00' notitle, $d77 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset multiplot
set terminal svg size 1680,1440 dynamic background 'white'
set output 'quadratic.svg'
set multiplot layout 3,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2 with lines lc '#0072B2' notitle, $d1 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d2 using 1:2 with lines lc '#D55E00' notitle, $d3 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d4 using 1:2 with lines lc '#009E73' notitle, $d5 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d6 using 1:2 with lines lc '#CC79A7' notitle, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d8 using 1:2 with lines lc '#E69F00' notitle, $d9 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, moving step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d10 using 1:2 with lines lc '#0072B2' notitle, $d11 using 1:2 with lines lc '#D55E00' notitle, $d12 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d13 using 1:2 with lines lc '#009E73' notitle, $d14 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d15 using 1:2 with lines lc '#CC79A7' notitle, $d16 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d17 using 1:2 with lines lc '#E69F00' notitle, $d18 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, moving-natural step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d19 using 1:2 with lines lc '#0072B2' notitle, $d20 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d21 using 1:2 with lines lc '#D55E00' notitle, $d22 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d23 using 1:2 with lines lc '#009E73' notitle, $d24 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d25 using 1:2 with lines lc '#CC79A7' notitle, $d26 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d27 using 1:2 with lines lc '#E69F00' notitle, $d28 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky step, qr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d29 using 1:2 with lines lc '#0072B2' notitle, $d30 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d31 using 1:2 with lines lc '#D55E00' notitle, $d32 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d33 using 1:2 with lines lc '#009E73' notitle, $d34 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d35 using 1:2 with lines lc '#CC79A7' notitle, $d36 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d37 using 1:2 with lines lc '#E69F00' notitle, $d38 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d39 using 1:2 with lines lc '#0072B2' notitle, $d40 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d41 using 1:2 with lines lc '#D55E00' notitle, $d42 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d43 using 1:2 with lines lc '#009E73' notitle, $d44 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d45 using 1:2 with lines lc '#CC79A7' notitle, $d46 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d47 using 1:2 with lines lc '#E69F00' notitle, $d48 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, moving step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d49 using 1:2 with lines lc '#0072B2' notitle, $d50 using 1:2 with lines lc '#D55E00' notitle, $d51 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d52 using 1:2 with lines lc '#009E73' notitle, $d53 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d54 using 1:2 with lines lc '#CC79A7' notitle, $d55 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d56 using 1:2 with lines lc '#E69F00' notitle, $d57 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, moving-natural step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d58 using 1:2 with lines lc '#0072B2' notitle, $d59 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d60 using 1:2 with lines lc '#D55E00' notitle, $d61 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d62 using 1:2 with lines lc '#009E73' notitle, $d63 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d64 using 1:2 with lines lc '#CC79A7' notitle, $d65 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d66 using 1:2 with lines lc '#E69F00' notitle, $d67 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky step, qr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d68 using 1:2 with lines lc '#0072B2' notitle, $d69 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d70 using 1:2 with lines lc '#D55E00' notitle, $d71 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d72 using 1:2 with lines lc '#009E73' notitle, $d73 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d74 using 1:2 with lines lc '#CC79A7' notitle, $d75 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d76 using 1:2 with lines lc '#E69F00' notitle, $d77 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset multiplot
