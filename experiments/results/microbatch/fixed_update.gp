$d0 << EOD
1 -0.0149652 -0.105756 0.0758257
2 -0.0315971 -0.202874 0.13968
4 0.00681304 -0.136508 0.150135
8 0.00609605 -0.078512 0.0907041
16 -0.0101483 -0.259047 0.23875
64 -0.0120818 -0.021358 -0.0028055
EOD
$d1 << EOD
1 0.00460441 -0.165675 0.174884
2 -0.00263183 -0.0913545 0.0860909
4 0.00792107 -0.0338155 0.0496577
8 0.0174399 -0.107397 0.142277
16 0.0386207 0.0271925 0.0500489
64 0.0993595 0.0186076 0.180111
EOD
$d2 << EOD
1 -0.00435117 -0.164581 0.155879
2 -0.00780095 -0.0576528 0.0420509
4 0.0192555 -0.140913 0.179424
8 0.00285602 -0.31038 0.316092
16 0.0315911 -0.0365211 0.0997033
64 0.067235 0.00626335 0.128207
EOD
$d3 << EOD
1 0.117548 0.0685975 0.166499
2 0.141326 -0.32499 0.607643
4 0.245503 0.100032 0.390973
8 0.289586 0.248222 0.330949
16 0.342981 0.216715 0.469246
64 0.402374 0.353737 0.451011
EOD
$d4 << EOD
1 -0.0041725 -0.0254696 0.0171246
2 -0.0202409 -0.340022 0.29954
4 -0.0016629 -0.120522 0.117196
8 0.0161742 0.00882867 0.0235198
16 0.0136763 -0.0134515 0.0408041
64 -0.00974733 -0.0852677 0.0657731
EOD
$d5 << EOD
1 0.0116574 -0.0649415 0.0882562
2 -0.000877067 -0.0924971 0.090743
4 0.00310768 -0.0833843 0.0895997
8 0.0335423 -0.0801643 0.147249
16 0.0872712 -0.479806 0.654348
64 0.28644 0.162127 0.410753
EOD
$d6 << EOD
1 0.224757 0.0529692 0.396545
2 0.295124 -0.0431357 0.633385
4 0.337695 0.24227 0.43312
8 0.355211 0.0413174 0.669104
16 0.407796 0.316041 0.499551
64 0.486825 0.392876 0.580775
EOD
$d7 << EOD
1 0.00460441 -0.165675 0.174884
2 -0.00921416 -0.264135 0.245707
4 0.0033422 -0.124167 0.130852
8 0.0102413 -0.0559485 0.0764312
16 0.0479346 -0.257123 0.352992
64 0.0872979 0.00628468 0.168311
EOD
$d8 << EOD
1 0.117548 0.0685975 0.166499
2 0.156629 -0.133143 0.4464
4 0.21477 0.0271417 0.402398
8 0.284561 0.188614 0.380509
16 0.330328 0.267503 0.393152
64 0.398697 0.292212 0.505182
EOD
$d9 << EOD
1 0.011932 0.00995774 0.0139063
2 0.0170076 0.00251591 0.0314992
4 0.0245982 0.0238078 0.0253885
8 0.0359959 0.0356447 0.0363472
16 0.0587841 -0.00574496 0.123313
64 0.114889 0.03974 0.190039
EOD
$d10 << EOD
1 0.190169 0.156859 0.22348
2 0.266612 0.0699147 0.46331
4 0.409834 0.30208 0.517587
8 0.556788 0.0420036 1.07157
16 0.751131 0.60486 0.897402
64 1.35546 1.08352 1.62739
EOD
$d11 << EOD
1 0.154842 0.106445 0.203239
2 0.222926 0.196893 0.248958
4 0.311855 0.233102 0.390607
8 0.47505 0.182305 0.767795
16 0.664828 0.47166 0.857996
64 1.17914 0.72013 1.63815
EOD
$d12 << EOD
1 1.1281 0.855211 1.40099
2 1.55367 1.34366 1.76369
4 2.20722 2.11862 2.29582
8 3.1532 3.12117 3.18523
16 4.39693 4.27149 4.52238
64 8.93315 8.17138 9.69493
EOD
$d13 << EOD
1 0.00819702 0.00813717 0.00825687
2 0.0124004 0.0116018 0.0131989
4 0.0184354 0.0128421 0.0240288
8 0.027148 0.0249678 0.0293282
16 0.0406664 0.0108571 0.0704758
64 0.083507 0.0169484 0.150066
EOD
$d14 << EOD
1 0.130418 0.0388315 0.222004
2 0.185482 0.154748 0.216216
4 0.26758 0.140713 0.394447
8 0.346697 0.31794 0.375453
16 0.449831 0.430685 0.468978
64 0.650831 0.611489 0.690172
EOD
$d15 << EOD
1 0.678833 0.570565 0.787101
2 0.788748 0.780508 0.796988
4 0.851685 0.78531 0.91806
8 0.935808 0.708529 1.16309
16 0.973018 0.956021 0.990015
64 1.04751 1.02515 1.06986
EOD
$d16 << EOD
1 0.190169 0.156859 0.22348
2 0.297824 0.119952 0.475697
4 0.408758 0.222076 0.59544
8 0.579919 0.474373 0.685465
16 0.767195 0.75531 0.77908
64 1.29652 0.919819 1.67323
EOD
$d17 << EOD
1 1.1281 0.855211 1.40099
2 1.63476 1.38137 1.88816
4 2.30265 1.88949 2.71582
8 3.26282 3.12252 3.40311
16 4.5087 3.76952 5.24787
64 9.27945 8.71454 9.84437
EOD
$d18 << EOD
1 0.000240494 -0.00218403 0.00266502
2 0.00108364 -0.00143802 0.00360529
4 0.00370635 -0.00184684 0.00925955
8 0.0110041 -0.0110672 0.0330753
16 0.0257884 -0.0238469 0.0754237
64 0.0874349 0.00376318 0.171107
EOD
$d19 << EOD
1 0.00113945 -0.00381429 0.00609319
2 0.0124251 -0.0239404 0.0487906
4 0.0406118 0.00302781 0.0781958
8 0.0926835 0.028932 0.156435
16 0.175303 0.116567 0.234039
64 0.356589 0.20539 0.507787
EOD
$d20 << EOD
1 0.00062674 -0.00238892 0.0036424
2 0.00827816 0.00424016 0.0123162
4 0.0307184 -0.0172917 0.0787284
8 0.0707241 -0.0631274 0.204576
16 0.122816 0.113388 0.132244
64 0.278058 0.151225 0.40489
EOD
$d21 << EOD
1 0 0 0
2 0.000208755 -0.000219752 0.000637263
4 0.000592756 -0.000808899 0.00199441
8 0.000819844 -0.00257602 0.00421571
16 0.000757166 -0.000596872 0.0021112
64 0.000232349 -0.000366044 0.000830741
EOD
$d22 << EOD
1 0.00022368 -0.00197792 0.00242528
2 0.0012412 -0.000346026 0.00282843
4 0.004053 -0.00373195 0.011838
8 0.0107626 -0.00668303 0.0282081
16 0.0253768 -0.00757231 0.0583259
64 0.090667 0.0401844 0.14115
EOD
$d23 << EOD
1 0.00121736 -0.00692636 0.00936108
2 0.0128862 -0.0136203 0.0393926
4 0.0442983 -0.027536 0.116133
8 0.103538 0.0319867 0.175088
16 0.202044 0.148497 0.25559
64 0.39879 0.386116 0.411464
EOD
$d24 << EOD
1 0.000524969 -0.00436198 0.00541191
2 0.00623317 -0.00216786 0.0146342
4 0.0218136 -0.040179 0.0838062
8 0.0363453 -0.0264344 0.0991249
16 0.0509597 -0.0169238 0.118843
64 0.0853513 0.0632465 0.107456
EOD
$d25 << EOD
1 0.00113945 -0.00381429 0.00609319
2 0.0116696 -0.0186388 0.0419781
4 0.0401446 -0.0353658 0.115655
8 0.100539 -0.0676162 0.268694
16 0.181426 0.0554351 0.307416
64 0.386852 0.344478 0.429226
EOD
$d26 << EOD
1 0 0 0
2 9.63109e-05 -0.000139282 0.000331904
4 0.000640953 -0.0032978 0.00457971
8 0.000969589 -0.00300947 0.00494864
16 0.00106601 -0.00252384 0.00465587
64 0.000371387 -0.000252295 0.000995069
EOD
set grid
set xlabel offset 0,0.6
set terminal pngcairo font 'sans,11' size 1680,480
set output 'fixed_update.png'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss above that of fp32 accumulators' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'test_loss_gap' noenhanced
set logscale x

set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:sr' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int4:block128:sr' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'soft4:block128:sr' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int2:block128:sr' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int8:block128:rn' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int4:block128:rn' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'int2:block128:rn' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'int4:block128:qr' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 4 lc '#D55E00' title 'int2:block128:qr' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'rounding error of the sum, of its size' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'relative_error.accumulator' noenhanced
set logscale x
set logscale y
set format y '%g'

set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9
plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'int8:block128:sr' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft4:block128:sr' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int2:block128:sr' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int8:block128:rn' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int4:block128:rn' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int2:block128:rn' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'int4:block128:qr' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'int2:block128:qr' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'share of contributions that changed no code' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'underflow.accumulator' noenhanced
set logscale x

set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9
plot $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'int8:block128:sr' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d20 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft4:block128:sr' noenhanced, $d21 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int2:block128:sr' noenhanced, $d22 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int8:block128:rn' noenhanced, $d23 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int4:block128:rn' noenhanced, $d24 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int2:block128:rn' noenhanced, $d25 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'int4:block128:qr' noenhanced, $d26 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'int2:block128:qr' noenhanced
unset multiplot
set terminal svg size 1680,480 dynamic background 'white'
set output 'fixed_update.svg'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss above that of fp32 accumulators' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'test_loss_gap' noenhanced
set logscale x

set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:sr' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int4:block128:sr' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'soft4:block128:sr' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int2:block128:sr' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int8:block128:rn' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int4:block128:rn' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'int2:block128:rn' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'int4:block128:qr' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 4 lc '#D55E00' title 'int2:block128:qr' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'rounding error of the sum, of its size' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'relative_error.accumulator' noenhanced
set logscale x
set logscale y
set format y '%g'

set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9
plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'int8:block128:sr' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft4:block128:sr' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int2:block128:sr' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int8:block128:rn' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int4:block128:rn' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int2:block128:rn' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'int4:block128:qr' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'int2:block128:qr' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'share of contributions that changed no code' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'underflow.accumulator' noenhanced
set logscale x

set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9
plot $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'int8:block128:sr' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d20 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft4:block128:sr' noenhanced, $d21 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int2:block128:sr' noenhanced, $d22 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int8:block128:rn' noenhanced, $d23 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int4:block128:rn' noenhanced, $d24 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int2:block128:rn' noenhanced, $d25 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'int4:block128:qr' noenhanced, $d26 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'int2:block128:qr' noenhanced
unset multiplot
