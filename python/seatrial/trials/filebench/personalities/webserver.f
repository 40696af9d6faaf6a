# A web server: ten pages read whole, then a line appended to the log.
# Parameters as documented for Filebench's webserver personality: 100 threads, 1,000 files of 16 KiB
# on average (gamma, shape 1.5), 20 entries a folder, log appends of up to 16 KiB.

set $dir=/tmp
set $nthreads=100
set $nfiles=1000
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $iosize=1m
set $meanappendsize=16k
set $npages=10

define fileset name=pages, path=$dir, size=$filesize, entries=$nfiles, dirwidth=$meandirwidth, prealloc=100, readonly
define fileset name=log, path=$dir, size=$filesize, entries=1, dirwidth=$meandirwidth, prealloc

define flowop name=page
{
  flowop openfile name=page-open, filesetname=pages, fd=1
  flowop readwholefile name=page-read, fd=1, iosize=$iosize
  flowop closefile name=page-close, fd=1
}

define process name=webserver, instances=1
{
  thread name=webserver, memsize=10m, instances=$nthreads
  {
    flowop page name=pages, iters=$npages
    flowop appendfilerand name=log-append, filesetname=log, iosize=$meanappendsize, fd=2
  }
}

run 60
