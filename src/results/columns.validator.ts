// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","$comment":"What the main thread reads of columns.json (wire/kept-rows.ts).","type":"object","required":["columns"],"properties":{"columns":{"type":"array","items":{"type":"object","required":["name","type","nullable"],"properties":{"name":{"type":"string"},"nullable":{"type":"boolean"},"type":{"type":"object","required":["name"],"oneOf":[{"properties":{"name":{"enum":["Int8","Int16","Int32","Int64","UInt8","UInt16","UInt32","UInt64","Float32","Float64","Date","String","Binary","Variant","Geometry","Vector","Null"]}}},{"required":["precision","scale"],"properties":{"name":{"const":"Decimal"},"precision":{"type":"integer"},"isComputed":{"const":true},"scale":{"type":"integer"}}},{"required":["precision"],"properties":{"name":{"enum":["Timestamp","Time"]},"precision":{"type":"integer"}}}]}}}}}};

function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if((data.columns === undefined) && (missing0 = "columns")){
validate10.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
if(data.columns !== undefined){
let data0 = data.columns;
const _errs2 = errors;
if(errors === _errs2){
if(Array.isArray(data0)){
var valid1 = true;
const len0 = data0.length;
for(let i0=0; i0<len0; i0++){
let data1 = data0[i0];
const _errs4 = errors;
if(errors === _errs4){
if(data1 && typeof data1 == "object" && !Array.isArray(data1)){
let missing1;
if((((data1.name === undefined) && (missing1 = "name")) || ((data1.type === undefined) && (missing1 = "type"))) || ((data1.nullable === undefined) && (missing1 = "nullable"))){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0,schemaPath:"#/properties/columns/items/required",keyword:"required",params:{missingProperty: missing1},message:"must have required property '"+missing1+"'"}];
return false;
}
else {
if(data1.name !== undefined){
const _errs6 = errors;
if(typeof data1.name !== "string"){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/name",schemaPath:"#/properties/columns/items/properties/name/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid2 = _errs6 === errors;
}
else {
var valid2 = true;
}
if(valid2){
if(data1.nullable !== undefined){
const _errs8 = errors;
if(typeof data1.nullable !== "boolean"){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/nullable",schemaPath:"#/properties/columns/items/properties/nullable/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"}];
return false;
}
var valid2 = _errs8 === errors;
}
else {
var valid2 = true;
}
if(valid2){
if(data1.type !== undefined){
let data4 = data1.type;
const _errs10 = errors;
const _errs12 = errors;
let valid3 = false;
let passing0 = null;
const _errs13 = errors;
if(data4 && typeof data4 == "object" && !Array.isArray(data4)){
if(data4.name !== undefined){
let data5 = data4.name;
if(!(((((((((((((((((data5 === "Int8") || (data5 === "Int16")) || (data5 === "Int32")) || (data5 === "Int64")) || (data5 === "UInt8")) || (data5 === "UInt16")) || (data5 === "UInt32")) || (data5 === "UInt64")) || (data5 === "Float32")) || (data5 === "Float64")) || (data5 === "Date")) || (data5 === "String")) || (data5 === "Binary")) || (data5 === "Variant")) || (data5 === "Geometry")) || (data5 === "Vector")) || (data5 === "Null"))){
const err0 = {instancePath:instancePath+"/columns/" + i0+"/type/name",schemaPath:"#/properties/columns/items/properties/type/oneOf/0/properties/name/enum",keyword:"enum",params:{allowedValues: schema11.properties.columns.items.properties.type.oneOf[0].properties.name.enum},message:"must be equal to one of the allowed values"};
if(vErrors === null){
vErrors = [err0];
}
else {
vErrors.push(err0);
}
errors++;
}
}
}
var _valid0 = _errs13 === errors;
if(_valid0){
valid3 = true;
passing0 = 0;
}
const _errs15 = errors;
if(data4 && typeof data4 == "object" && !Array.isArray(data4)){
let missing2;
if(((data4.precision === undefined) && (missing2 = "precision")) || ((data4.scale === undefined) && (missing2 = "scale"))){
const err1 = {instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/properties/columns/items/properties/type/oneOf/1/required",keyword:"required",params:{missingProperty: missing2},message:"must have required property '"+missing2+"'"};
if(vErrors === null){
vErrors = [err1];
}
else {
vErrors.push(err1);
}
errors++;
}
else {
if(data4.name !== undefined){
const _errs16 = errors;
if("Decimal" !== data4.name){
const err2 = {instancePath:instancePath+"/columns/" + i0+"/type/name",schemaPath:"#/properties/columns/items/properties/type/oneOf/1/properties/name/const",keyword:"const",params:{allowedValue: "Decimal"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err2];
}
else {
vErrors.push(err2);
}
errors++;
}
var valid5 = _errs16 === errors;
}
else {
var valid5 = true;
}
if(valid5){
if(data4.precision !== undefined){
let data7 = data4.precision;
const _errs17 = errors;
if(!(((typeof data7 == "number") && (!(data7 % 1) && !isNaN(data7))) && (isFinite(data7)))){
const err3 = {instancePath:instancePath+"/columns/" + i0+"/type/precision",schemaPath:"#/properties/columns/items/properties/type/oneOf/1/properties/precision/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err3];
}
else {
vErrors.push(err3);
}
errors++;
}
var valid5 = _errs17 === errors;
}
else {
var valid5 = true;
}
if(valid5){
if(data4.isComputed !== undefined){
const _errs19 = errors;
if(true !== data4.isComputed){
const err4 = {instancePath:instancePath+"/columns/" + i0+"/type/isComputed",schemaPath:"#/properties/columns/items/properties/type/oneOf/1/properties/isComputed/const",keyword:"const",params:{allowedValue: true},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err4];
}
else {
vErrors.push(err4);
}
errors++;
}
var valid5 = _errs19 === errors;
}
else {
var valid5 = true;
}
if(valid5){
if(data4.scale !== undefined){
let data9 = data4.scale;
const _errs20 = errors;
if(!(((typeof data9 == "number") && (!(data9 % 1) && !isNaN(data9))) && (isFinite(data9)))){
const err5 = {instancePath:instancePath+"/columns/" + i0+"/type/scale",schemaPath:"#/properties/columns/items/properties/type/oneOf/1/properties/scale/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err5];
}
else {
vErrors.push(err5);
}
errors++;
}
var valid5 = _errs20 === errors;
}
else {
var valid5 = true;
}
}
}
}
}
}
var _valid0 = _errs15 === errors;
if(_valid0 && valid3){
valid3 = false;
passing0 = [passing0, 1];
}
else {
if(_valid0){
valid3 = true;
passing0 = 1;
}
const _errs22 = errors;
if(data4 && typeof data4 == "object" && !Array.isArray(data4)){
let missing3;
if((data4.precision === undefined) && (missing3 = "precision")){
const err6 = {instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/properties/columns/items/properties/type/oneOf/2/required",keyword:"required",params:{missingProperty: missing3},message:"must have required property '"+missing3+"'"};
if(vErrors === null){
vErrors = [err6];
}
else {
vErrors.push(err6);
}
errors++;
}
else {
if(data4.name !== undefined){
let data10 = data4.name;
const _errs23 = errors;
if(!((data10 === "Timestamp") || (data10 === "Time"))){
const err7 = {instancePath:instancePath+"/columns/" + i0+"/type/name",schemaPath:"#/properties/columns/items/properties/type/oneOf/2/properties/name/enum",keyword:"enum",params:{allowedValues: schema11.properties.columns.items.properties.type.oneOf[2].properties.name.enum},message:"must be equal to one of the allowed values"};
if(vErrors === null){
vErrors = [err7];
}
else {
vErrors.push(err7);
}
errors++;
}
var valid6 = _errs23 === errors;
}
else {
var valid6 = true;
}
if(valid6){
if(data4.precision !== undefined){
let data11 = data4.precision;
const _errs24 = errors;
if(!(((typeof data11 == "number") && (!(data11 % 1) && !isNaN(data11))) && (isFinite(data11)))){
const err8 = {instancePath:instancePath+"/columns/" + i0+"/type/precision",schemaPath:"#/properties/columns/items/properties/type/oneOf/2/properties/precision/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err8];
}
else {
vErrors.push(err8);
}
errors++;
}
var valid6 = _errs24 === errors;
}
else {
var valid6 = true;
}
}
}
}
var _valid0 = _errs22 === errors;
if(_valid0 && valid3){
valid3 = false;
passing0 = [passing0, 2];
}
else {
if(_valid0){
valid3 = true;
passing0 = 2;
}
}
}
if(!valid3){
const err9 = {instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/properties/columns/items/properties/type/oneOf",keyword:"oneOf",params:{passingSchemas: passing0},message:"must match exactly one schema in oneOf"};
if(vErrors === null){
vErrors = [err9];
}
else {
vErrors.push(err9);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs12;
if(vErrors !== null){
if(_errs12){
vErrors.length = _errs12;
}
else {
vErrors = null;
}
}
}
if(errors === _errs10){
if(data4 && typeof data4 == "object" && !Array.isArray(data4)){
let missing4;
if((data4.name === undefined) && (missing4 = "name")){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/properties/columns/items/properties/type/required",keyword:"required",params:{missingProperty: missing4},message:"must have required property '"+missing4+"'"}];
return false;
}
}
else {
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/properties/columns/items/properties/type/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid2 = _errs10 === errors;
}
else {
var valid2 = true;
}
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/columns/" + i0,schemaPath:"#/properties/columns/items/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid1 = _errs4 === errors;
if(!valid1){
break;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/columns",schemaPath:"#/properties/columns/type",keyword:"type",params:{type: "array"},message:"must be array"}];
return false;
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
