# A file server of home directories: create and write, append, read whole, delete, look up.
# Parameters as documented for Filebench's fileserver personality: 50 threads, 10,000 files of
# 128 KiB on average (gamma, shape 1.5), 20 entries a folder, appends of 8 KiB on average (up to
# 16 KiB).

set $dir=/tmp
set $nthreads=50
set $nfiles=10000
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $iosize=1m
set $meanappendsize=16k

define fileset name=homes, path=$dir, size=$filesize, entries=$nfiles, dirwidth=$meandirwidth, prealloc=80

define process name=server, instances=1
{
  thread name=server, memsize=10m, instances=$nthreads
  {
    flowop createfile name=create, filesetname=homes, fd=1
    flowop writewholefile name=write-whole, srcfd=1, fd=1, iosize=$iosize
    flowop closefile name=close-created, fd=1
    flowop openfile name=open-to-append, filesetname=homes, fd=1
    flowop appendfilerand name=append, iosize=$meanappendsize, fd=1
    flowop closefile name=close-appended, fd=1
    flowop openfile name=open-to-read, filesetname=homes, fd=1
    flowop readwholefile name=read-whole, fd=1, iosize=$iosize
    flowop closefile name=close-read, fd=1
    flowop deletefile name=delete, filesetname=homes
    flowop statfile name=stat, filesetname=homes
  }
}

run 60
